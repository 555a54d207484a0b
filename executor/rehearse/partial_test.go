package rehearse

import (
	"strings"
	"testing"

	"salectl/spec"
)

// wanting is an answer to a claim for so many units, of which asked were named.
func wanting(quantity, asked int64, r record) record {
	r.quantity, r.Requested = quantity, asked
	return r
}

// TestJudgeOfParts has answers of a sale whose claims may get a part.
func TestJudgeOfParts(t *testing.T) {
	const beside = "requested 3 units and received 201"
	for name, c := range map[string]struct {
		whole   bool // the sale gives all or nothing
		records []record
		want    string // a part of the only violation; "": none
	}{
		"a part": {records: []record{wanting(3, 3, at(0, 1, "a/1", 201, "sold", 1, 2))}},
		"all":    {records: []record{wanting(2, 0, at(0, 1, "a/1", 201, "sold", 1, 2))}},
		"a part, and the limit is reached": {records: []record{
			wanting(3, 3, at(0, 1, "a/1", 201, "sold", 1, 2)), wanting(1, 0, at(2, 3, "a/2", 409, "limit_reached")),
		}},
		"a part, and all is sold": {records: []record{
			wanting(3, 3, at(0, 1, "a/1", 201, "sold", 1, 2)), wanting(3, 3, at(0, 1, "b/1", 201, "sold", 3)),
			wanting(3, 0, at(2, 3, "c/1", 409, "sold_out")),
		}},
		"the limit is not reached": {want: "but has 1 unit, requested 2, at most 2 are allowed", records: []record{
			at(0, 1, "a/1", 201, "sold", 1), wanting(2, 0, at(2, 3, "a/2", 409, "limit_reached")),
		}},
		"more than the limit": {want: "a has 3 units, the limit is 2", records: []record{
			wanting(4, 4, at(0, 1, "a/1", 201, "sold", 1, 2, 3)),
		}},
		"not told of it":        {want: beside, records: []record{wanting(3, 0, at(0, 1, "a/1", 201, "sold", 1, 2))}},
		"told of another claim": {want: beside, records: []record{wanting(3, 4, at(0, 1, "a/1", 201, "sold", 1, 2))}},
		"told of all as a part": {want: "requested 2 units", records: []record{wanting(2, 2, at(0, 1, "a/1", 201, "sold", 1, 2))}},
		"where there are none":  {whole: true, want: beside, records: []record{wanting(3, 3, at(0, 1, "a/1", 201, "sold", 1, 2))}},
	} {
		t.Run(name, func(t *testing.T) {
			violations := judged(Config{Sale: spec.Sale{Name: "movie", PerUserLimit: 2, Stock: 3, Partial: !c.whole}}, c.records, nil, nil).violations
			switch {
			case c.want == "" && len(violations) > 0:
				t.Errorf("unfair: %q", violations)
			case c.want != "" && (len(violations) != 1 || !strings.Contains(violations[0], c.want)):
				t.Errorf("got %q, want only %q", violations, c.want)
			}
		})
	}
}
