package quorum_test

import (
	"testing"
	"time"

	"salectl/backends/quorum"
)

func TestParseNote(t *testing.T) {
	for text, want := range map[string]quorum.Note{
		"h:1 7 3000":                 {Address: "h:1", Beats: 7, TTL: 3 * time.Second},
		"h:1 18446744073709551615 0": {Address: "h:1", Beats: 1<<64 - 1},
		" 7 3000":                    {Beats: 7, TTL: 3 * time.Second},
		"h:1 7":                      {},
		"h:1 7 3000 ":                {},
		"h:1 -7 3000":                {},
		"h:1 x 3000":                 {},
		"h:1 7 x":                    {},
		"h:1 7 -1":                   {},
		"h:1 7 99999999999":          {}, // no ttl is that long
		"":                           {},
	} {
		got, ok := quorum.ParseNote(text)
		if got != want || ok != (want != quorum.Note{}) {
			t.Errorf("%q is %+v, %v, want %+v", text, got, ok, want)
		}
		if ok && got.String() != text {
			t.Errorf("%q is written %q", text, got)
		}
	}
}
