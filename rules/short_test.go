package rules

import (
	"context"
	"strings"
	"testing"
)

// shortSource answers for one user fewer than requested.
type shortSource struct{}

func (shortSource) Lookup(_ context.Context, ids []string) (all []Attributes, err error) {
	for _, id := range ids[1:] {
		all = append(all, shopper.Unknown(id))
	}
	return all, nil
}

func (shortSource) History(_ context.Context, ids []string) ([][]Purchase, error) {
	return make([][]Purchase, len(ids)-1), nil
}

// A source that answers for fewer users than requested is an error of all of them.
func TestShortAnswers(t *testing.T) {
	for name, users := range map[string]Users{
		"users":     WithHistory(shortSource{}, histories{}),
		"purchases": WithHistory(UnknownUsers(shopper), shortSource{}),
	} {
		all, err := users.Lookup(t.Context(), []string{"ada", "eve"})
		if err == nil || !strings.Contains(err.Error(), "for 2 ids the source returned") {
			t.Errorf("%s: %v, %v", name, all, err)
		}
	}
}
