package nhc

import (
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// Commands returns the commands of a piece of shell, each as its words without quotes. Settings of
// variables are left out. It is for finding what a piece is after, not for running it.
func Commands(text string) (list [][]string) {
	var words []string
	var word []byte
	begun := false
	endWord := func() {
		if begun {
			words = append(words, string(word))
		}
		word, begun = nil, false
	}
	end := func() {
		endWord()
		if words = command(words); len(words) > 0 {
			list = append(list, words)
		}
		words = nil
	}
	for i, quote := 0, byte(0); i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quote != '\'' && i+1 < len(text):
			i++
			word, begun = append(word, text[i]), true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word = append(word, c)
		case c == '"' || c == '\'':
			quote, begun = c, true
		case c == '#' && !begun:
			i += strings.IndexByte(text[i:]+"\n", '\n') - 1
		case strings.IndexByte(" \t", c) >= 0:
			endWord()
		case strings.IndexByte(";&|()`\n", c) >= 0:
			end()
		default:
			word, begun = append(word, c), true
		}
	}
	end()
	return list
}

var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*\+?=`)

// command takes off what may be before a command's name.
func command(words []string) []string {
	for len(words) > 0 {
		switch words[0] {
		case "!", "{", "}", "if", "then", "else", "elif", "fi", "do", "done", "time", "while", "until", "":
		case "export", "local", "declare", "readonly", "unset":
			return nil
		default:
			if !assignment.MatchString(words[0]) {
				return words
			}
		}
		words = words[1:]
	}
	return nil
}

var function = regexp.MustCompile(`^\s*(?:function\s+([A-Za-z_][-A-Za-z0-9_]*)|([A-Za-z_][-A-Za-z0-9_]*)\s*\(\s*\))`)

// Functions reads the functions of all scripts in a folder, as text by their names. A function ends
// with a brace at the begin of a line, as in all scripts of NHC's.
func Functions(root fs.FS, dir string) map[string]string {
	all := map[string]string{}
	files, _ := fs.Glob(root, path.Join(strings.TrimPrefix(dir, "/"), "*.nhc"))
	for _, file := range files {
		text, _ := fs.ReadFile(root, file)
		name := ""
		for line := range strings.Lines(string(text)) {
			if m := function.FindStringSubmatch(line); m != nil && name == "" {
				name = m[1] + m[2]
				all[name] = ""
			}
			if name != "" {
				all[name] += line
			}
			if strings.HasPrefix(line, "}") {
				name = ""
			}
		}
	}
	return all
}
