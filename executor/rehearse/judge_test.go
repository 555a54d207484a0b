package rehearse

import (
	"strings"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/clock"

	"salectl/spec"
)

// at makes a record of a claim for one unit that was sent and answered at these
// times.
func at(began, ended int, key string, status int, outcome string, units ...int64) record {
	user, _, _ := strings.Cut(key, "/")
	r := record{
		click: click{user: user, key: key, quantity: 1},
		sent:  time.Duration(began),
		reply: reply{status: status, Claim: api.Claim{Outcome: api.Outcome(outcome)}},
		began: clock.Now{Mono: time.Duration(began)},
		ended: clock.Now{Mono: time.Duration(ended)},
	}
	if len(units) > 0 {
		r.ID, r.Sale, r.User, r.Units = "0-0-"+string(rune('0'+units[0])), "movie", user, units
	}
	return r
}

// TestJudgeIsFair has answers that look wrong and are not, each beside the one
// that is.
func TestJudgeIsFair(t *testing.T) {
	for name, c := range map[string]struct {
		records []record
		want    string // a part of the only violation; "": none
	}{
		"refused, then accepted": {records: []record{
			at(0, 1, "a/1", 409, "none_now"), at(2, 3, "a/1", 201, "sold", 1),
		}},
		"refused while being accepted": {records: []record{
			at(0, 5, "a/1", 201, "sold", 1), at(1, 6, "a/1", 409, "none_now"),
		}},
		"accepted, then refused": {want: "was accepted as claim 0-0-1, then answered 409 none_now", records: []record{
			at(0, 5, "a/1", 201, "sold", 1), at(6, 7, "a/1", 409, "none_now"),
		}},
		"accepted, then unknown": {records: []record{
			at(0, 5, "a/1", 201, "sold", 1), at(6, 7, "a/1", 503, "unknown"),
		}},
		"replay arrives first": {records: []record{
			at(0, 9, "a/1", 201, "sold", 1), at(1, 2, "a/1", 200, "sold", 1),
		}},
		"only a replay arrives": {records: []record{
			at(0, 1, "a/1", 200, "sold", 1),
		}},
		"other key within the limit": {records: []record{
			at(0, 1, "a/1", 201, "sold", 1), at(2, 3, "a/2", 201, "sold", 2),
		}},
		"other key beyond the limit": {want: "a has 3 units, the limit is 2", records: []record{
			at(0, 1, "a/1", 201, "sold", 1), at(2, 3, "a/2", 201, "sold", 2), at(2, 3, "a/3", 201, "sold", 3),
		}},
		"sold out with all sold": {records: []record{
			at(0, 1, "a/1", 201, "sold", 1), at(0, 1, "a/2", 201, "sold", 2), at(0, 1, "b/1", 201, "sold", 3), at(2, 3, "c/1", 409, "sold_out"),
		}},
		"sold out with one left": {want: "only 2 of 3 units are", records: []record{
			at(0, 1, "a/1", 201, "sold", 1), at(0, 1, "a/2", 201, "sold", 2), at(2, 3, "c/1", 409, "sold_out"),
		}},
		"sold out with one in doubt": {records: []record{
			at(0, 1, "a/1", 201, "sold", 1), at(0, 1, "a/2", 201, "sold", 2), at(0, 1, "b/1", 503, "unknown"), at(2, 3, "c/1", 409, "sold_out"),
		}},
		"limit reached in doubt": {records: []record{
			at(0, 1, "a/1", 503, "unknown"), at(0, 1, "a/2", 503, "unknown"), at(2, 3, "a/3", 409, "limit_reached"),
		}},
		"limit not reached": {want: "received limit_reached, but has 1 unit, requested 1, at most 2 are allowed", records: []record{
			at(0, 1, "a/1", 201, "sold", 1), at(2, 3, "a/2", 409, "limit_reached"),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			violations := judged(Config{Sale: spec.Sale{Name: "movie", PerUserLimit: 2, Stock: 3}}, c.records, nil, nil).violations
			switch {
			case c.want == "" && len(violations) > 0:
				t.Errorf("unfair: %q", violations)
			case c.want != "" && (len(violations) != 1 || !strings.Contains(violations[0], c.want)):
				t.Errorf("got %q, want only %q", violations, c.want)
			}
		})
	}
}
