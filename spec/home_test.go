package spec

import (
	"reflect"
	"testing"
)

// A plan shows where a sale is kept whatever kind of home that is.
func TestSettingsOfHomes(t *testing.T) {
	third := Home{Kind: "third", Place: "a place", Nodes: []string{"one", "two"}}
	told := third
	told.Settings = Settings{Backend: "told", LockNodes: []string{"told"}}
	for name, test := range map[string]struct {
		sale Sale
		want Settings
	}{
		"a kind that tells no settings": {Sale{Homes: &Homes{third, third}}, Settings{Backend: "a place", LockNodes: []string{"one", "two"}}},
		"a kind that tells its own":     {Sale{Homes: &Homes{told, told}}, Settings{Backend: "told", LockNodes: []string{"told"}}},
		"a kind of a later version":     {Sale{}, Settings{Backend: "unknown to this program"}},
		"embedded":                      {Sale{Embedded: &Embedded{}}, Settings{Backend: "embedded"}},
	} {
		if got := test.sale.Settings(); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}
