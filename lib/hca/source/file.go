package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"gresnet/lib/hca/gres"
	"gresnet/lib/kernel/program"
	"gresnet/lib/words/config"
	"gresnet/lib/words/hint"
	"gresnet/lib/words/job"
	"gresnet/lib/words/trust"
)

// fileSource answers with what the site wrote into a file for the job, for
// example in a PrologSlurmctld on a shared file system.
type fileSource struct {
	template config.Template
	names    []string
}

// maxEntitlement bounds what a site's file or program may say.
const maxEntitlement = 64 << 10

func (s fileSource) ask(ctx context.Context, j job.Job) (answer, error) {
	path := s.template.Path(j.ID, j.Run.Restart, j.UID, j.Node)
	wants, err := s.readWithin(ctx, path)
	switch {
	case errors.Is(err, trust.ErrNoFile):
		return answer{}, nil
	case err != nil:
		return answer{}, hint.With(
			fmt.Errorf("read %s for job %d: %w", path, j.ID, err),
			`GN244 only root may be able to write the file, and it must have a GRES on each line, like "nic:2" or "nic:1(IDX:3)", or "none"`,
		)
	}
	a := answer{mine: true, wants: wants}
	a.note("%s says %s", path, describeWants(wants))
	return a, nil
}

// readWithin leaves a read behind that does not come back, as of a file system whose
// server is gone.
func (s fileSource) readWithin(ctx context.Context, path string) ([]gres.Want, error) {
	type result struct {
		wants []gres.Want
		err   error
	}
	done := make(chan result, 1)
	go func() {
		wants, err := s.read(path)
		done <- result{wants, err}
	}()
	select {
	case r := <-done:
		return r.wants, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: does its file system answer?", program.ErrLate)
	}
}

func (s fileSource) read(path string) ([]gres.Want, error) {
	f, err := trust.Open(path)
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

func describeWants(wants []gres.Want) string {
	if len(wants) == 0 {
		return "none"
	}
	texts := make([]string, len(wants))
	for i, w := range wants {
		texts[i] = w.String()
	}
	return strings.Join(texts, ",")
}

// parseEntitlement parses what a site's own file or program says: a GRES on
// each line, or the one line "none". It must end with a line's end, so that
// half of it is never taken for the whole.
func parseEntitlement(text string, names []string, source string) ([]gres.Want, error) {
	body, whole := strings.CutSuffix(text, "\n")
	switch {
	case !whole:
		return nil, errors.New("it does not end with a line's end: it is cut off")
	case body == "none":
		return nil, nil
	}
	return gres.ParseRequest(strings.ReplaceAll(body, "\n", ","), names, source)
}
