package gres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"gresnet/lib/config"
	"gresnet/lib/job"
)

// fileSource answers with what the site wrote into a file for the job, for
// example in a PrologSlurmctld on a shared file system.
type fileSource struct {
	template config.Template
	names    []string
}

// maxEntitlement bounds what a site's file or program may say.
const maxEntitlement = 64 << 10

func (s fileSource) ask(_ context.Context, j job.Job) (answer, error) {
	path := s.template.Path(j.ID, j.Run.Restart, j.UID, j.Node)
	wants, err := s.read(path)
	switch {
	case errors.Is(err, errNoFile):
		return answer{}, nil
	case err != nil:
		return answer{}, fault{
			fmt.Errorf("read %s for job %d: %w", path, j.ID, err),
			`the file must be root's alone to write, and say a GRES on each line, like "nic:2" or "nic:1(IDX:3)", or "none"`,
		}
	}
	a := answer{mine: true, wants: wants}
	a.note("%s says %s", path, describeWants(wants))
	return a, nil
}

func (s fileSource) read(path string) ([]Want, error) {
	f, err := openTrusted(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxEntitlement+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxEntitlement:
		return nil, fmt.Errorf("it is longer than %d KiB", maxEntitlement>>10)
	}
	return parseEntitlement(string(text), s.names, config.File)
}

func describeWants(wants []Want) string {
	if len(wants) == 0 {
		return "none"
	}
	texts := make([]string, len(wants))
	for i, w := range wants {
		texts[i] = w.String()
	}
	return strings.Join(texts, ",")
}
