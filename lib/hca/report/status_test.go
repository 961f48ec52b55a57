package report

import (
	"slices"
	"testing"
)

func TestNamesAreGroupedAsSlurmDoes(t *testing.T) {
	for _, c := range []struct{ names, want []string }{
		{nil, []string{"-"}},
		{[]string{"mlx5_0"}, []string{"mlx5_0"}},
		{[]string{"mlx5_10", "siw", "mlx5_2", "mlx5_3", "ib0"}, []string{"mlx5_[2-3,10]", "siw", "ib0"}},
		{[]string{"ib", "ib0", "ib00", "ib1"}, []string{"ib", "ib[0-1]", "ib00"}},
		{[]string{"7", "8"}, []string{"[7-8]"}},
	} {
		if got := grouped(c.names); !slices.Equal(got, c.want) {
			t.Errorf("%q became %q, want %q", c.names, got, c.want)
		}
	}
}
