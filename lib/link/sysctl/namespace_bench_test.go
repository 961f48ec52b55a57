package sysctl

import "testing"

func BenchmarkSettings(b *testing.B) {
	for b.Loop() {
		keys, err := Own()
		if err != nil {
			b.Fatal(err)
		}
		Settings(keys)
	}
}
