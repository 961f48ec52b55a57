package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// input is what the floor is told of the job and the node, a line each:
//
//	netns PATH                  where the namespace is bound
//	dev PATH                    where the job's device nodes are made
//	owner UID GID               whose they are
//	rdma INDEX                  an RDMA device to move: the first is the first link's, and so on
//	node PATH NAME MAJOR MINOR  a device node: the node's own, and its name in the job
//	link INDEX NAME             an interface to move
//	remade FOLDER NAME          one that its RDMA device's move makes again, and where the
//	                            HCA's interfaces are below /sys
//	address HEX, route HEX      of the interface named last: an RTM_NEWADDR's and an
//	                            RTM_NEWROUTE's body, the latter with its RTA_OIF last
type input struct {
	netns, dev string
	uid, gid   int
	rdma       []uint32
	nodes      []node
	links      []link
}

type node struct {
	path, name string
	number     int
}

type link struct {
	index     int    // 0: its RDMA device's move makes it again
	folder    string // then, of the HCA's interfaces
	name      string
	addresses [][]byte
	routes    [][]byte
}

// read takes two requests: package os would take more.
func read(path string) (input, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return input{}, fmt.Errorf("open %s: %w", path, err)
	}
	text := make([]byte, 256<<10)
	n, err := unix.Read(fd, text)
	if err != nil || n == len(text) {
		return input{}, fmt.Errorf("read %s: %d bytes: %w", path, n, err)
	}
	return parse(text[:n])
}

func parse(text []byte) (it input, err error) {
	for number, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
		if err := it.line(strings.Fields(string(line))); err != nil {
			return input{}, fmt.Errorf("line %d: %w", number+1, err)
		}
	}
	if len(it.rdma) > 0 && len(it.rdma) != len(it.links) {
		return input{}, fmt.Errorf("%d RDMA devices move, and %d interfaces", len(it.rdma), len(it.links))
	}
	return it, nil
}

func (it *input) line(words []string) error {
	lengths := map[string]int{"netns": 2, "dev": 2, "owner": 3, "rdma": 2, "node": 5, "link": 3, "remade": 3, "address": 2, "route": 2}
	if len(words) == 0 || len(words) != lengths[words[0]] {
		return fmt.Errorf("not understood: %q", words)
	}
	kind, words := words[0], words[1:]
	var err error
	number := func(word string) int {
		n, e := strconv.ParseUint(word, 10, 31)
		if e != nil {
			err = e
		}
		return int(n)
	}
	switch kind {
	case "netns":
		it.netns = words[0]
	case "dev":
		it.dev = words[0]
	case "owner":
		it.uid, it.gid = number(words[0]), number(words[1])
	case "rdma":
		it.rdma = append(it.rdma, uint32(number(words[0])))
	case "node":
		it.nodes = append(it.nodes, node{words[0], words[1], int(unix.Mkdev(uint32(number(words[2])), uint32(number(words[3]))))})
	case "link":
		it.links = append(it.links, link{index: number(words[0]), name: words[1]})
	case "remade":
		it.links = append(it.links, link{folder: words[0], name: words[1]})
	case "address", "route":
		return it.message(kind, words[0])
	}
	return err
}

func (it *input) message(kind, text string) error {
	body, err := hex.DecodeString(text)
	if err != nil || len(it.links) == 0 {
		return fmt.Errorf("a message of no link, or not hexadecimal: %q", text)
	}
	l := &it.links[len(it.links)-1]
	if kind == "route" {
		l.routes = append(l.routes, body)
	} else {
		l.addresses = append(l.addresses, body)
	}
	return nil
}
