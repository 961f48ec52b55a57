package main

import (
	"context"
	"io"
	"testing"
	"time"
)

func TestAVMThatWouldBeginTooLateIsSkippedWithAReasonAndIsNoFailure(t *testing.T) {
	r := &run{ctx: context.Background(), out: io.Discard, start: time.Now().Add(-time.Hour), enough: 40 * time.Minute, jobs: 1, skipped: map[string]int{}}
	r.guests([]job{{folders: []string{"law"}, tests: map[string][]string{"law": {"TestA", "TestB"}}}, {folders: []string{"lease"}, tests: map[string][]string{"lease": {"TestC"}}}})
	if r.skipped["no VM begins after 40m0s"] != 3 || len(r.skipped) != 1 || len(r.failed) != 0 || r.passed != 0 {
		t.Errorf("skipped are %v, failed %s, passed %d", r.skipped, names(r), r.passed)
	}
}
