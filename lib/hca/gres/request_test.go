package gres_test

import (
	"reflect"
	"testing"

	"gresnet/lib/hca/gres"
)

func TestParseRequestTakesWhatSrunTakes(t *testing.T) {
	names := []string{"nic", "hca"}
	for text, want := range map[string][]gres.Want{
		"nic":                         {{Gres: "nic", Count: 1}},
		"nic:2":                       {{Gres: "nic", Count: 2}},
		"nic:mlx5":                    {{Gres: "nic", Type: "mlx5", Count: 1}},
		"nic:mlx5:2,hca":              {{Gres: "nic", Type: "mlx5", Count: 2}, {Gres: "hca", Count: 1}},
		"nic:a:1,nic:b:1":             {{Gres: "nic", Type: "a", Count: 1}, {Gres: "nic", Type: "b", Count: 1}},
		"nic:1(IDX:0),hca:1(IDX:0)":   {{Gres: "nic", Indices: []int{0}}, {Gres: "hca", Indices: []int{0}}},
		"nic:2(IDX:0,3),hca(CNT:2)":   {{Gres: "nic", Indices: []int{0, 3}}, {Gres: "hca", Count: 2}},
		"nic:mlx5:3(IDX:0-1,3),hca:1": {{Gres: "nic", Type: "mlx5", Indices: []int{0, 1, 3}}, {Gres: "hca", Count: 1}},
	} {
		for i := range want {
			want[i].Source = "test"
		}
		if got, err := gres.ParseRequest(text, names, "test"); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %+v, %v, want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                                `parse GRES "": "" is not a GRES that means an HCA; those are nic, hca`,
		"gpu:1":                           `parse GRES "gpu:1": "gpu" is not a GRES that means an HCA; those are nic, hca`,
		"nic:0":                           `parse GRES "nic:0": its count is 0`,
		"nic(IDX:)":                       `parse GRES "nic(IDX:)": it has no count`,
		"nic:1,nic:2":                     `parse GRES "nic:2": it is there twice`,
		"nic:a:1(IDX:0),nic:b:2(IDX:0-1)": `parse GRES "nic:b:2(IDX:0-1)": index 0 of nic is there twice`,
		"nic:":                            `parse GRES "nic:": unknown form; known are name:type:count(IDX:…) and name:type(CNT:…)`,
		"nic:a:b":                         `parse GRES "nic:a:b": unknown form; known are name:type:count(IDX:…) and name:type(CNT:…)`,
		"nic:1(IDX:0":                     `parse GRES "nic:1(IDX:0": the parentheses do not match`,
		"nic:99999999999":                 `parse GRES "nic:99999999999": "99999999999" is no count`,
	} {
		if got, err := gres.ParseRequest(text, names, "test"); err == nil || err.Error() != want {
			t.Errorf("%q is %+v, error %v, want %s", text, got, err, want)
		}
	}
}

func FuzzRequest(f *testing.F) {
	f.Add("nic:mlx5:2,hca")
	f.Add("nic:2(IDX:0,3),hca(CNT:2)")
	f.Add("nic:1(IDX:0")
	f.Fuzz(func(t *testing.T, text string) {
		wants, err := gres.ParseRequest(text, []string{"nic", "hca"}, "test")
		if err != nil {
			return
		}
		for _, w := range wants {
			again, err := gres.ParseRequest(w.String(), []string{"nic", "hca"}, "test")
			if err != nil || !reflect.DeepEqual(again, []gres.Want{w}) {
				t.Errorf("%+v prints %q, which parses as %+v, %v", w, w, again, err)
			}
		}
	})
}
