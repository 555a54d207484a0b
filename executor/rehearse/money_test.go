package rehearse

import (
	"strings"
	"testing"

	"salectl/spec"
)

// packet makes a record of a packet.
func packet(key string, unit int64, amounts ...string) record {
	r := at(0, 1, key, 201, "sold", unit)
	r.Amounts, r.Currency = amounts, "CNY"
	return r
}

// TestJudgeOfMoney has buyers of 1.00 in three packets of at least 0.10 add up
// what they were told.
func TestJudgeOfMoney(t *testing.T) {
	again := packet("a/1", 1, "0.51")
	again.status = 200
	foreign := packet("a/1", 1, "0.50")
	foreign.Currency = "EUR"
	for name, c := range map[string]struct {
		records []record
		want    string // a part of the only violation; "": none
		granted string
	}{
		"all":        {records: []record{packet("a/1", 1, "0.50"), packet("b/1", 2, "0.40"), packet("c/1", 3, "0.10")}, granted: "1.00"},
		"some":       {records: []record{packet("a/1", 1, "0.80"), packet("b/1", 2, "0.10")}, granted: "0.90"},
		"too much":   {want: "come to 1.01, and 3 have 1.00", records: []record{packet("a/1", 1, "0.51"), packet("b/1", 2, "0.50")}},
		"too little": {want: "come to 0.99, and 3 have 1.00", records: []record{packet("a/1", 1, "0.50"), packet("b/1", 2, "0.39"), packet("c/1", 3, "0.10")}},
		"a poor one": {want: `unit 2 with the amount "0.09", and the least is 0.10`, records: []record{packet("b/1", 2, "0.09")}},
		"no amount":  {want: `and amounts [] CNY`, records: []record{packet("a/1", 1)}},
		"two":        {want: `and amounts ["0.10" "0.10"] CNY`, records: []record{packet("a/1", 1, "0.10", "0.10")}},
		"currency":   {want: `and amounts ["0.50"] EUR`, records: []record{foreign}},
		"no number":  {want: `unit 1 with the amount ".50"`, records: []record{packet("a/1", 1, ".50")}},
		"another":    {want: "a/1 had two answers: claim 0-0-1 with units [1] worth [0.50], then", records: []record{packet("a/1", 1, "0.50"), again}},
	} {
		t.Run(name, func(t *testing.T) {
			red := &spec.RedPacket{Currency: "CNY", Scale: 2, Total: 100, Min: 10, Split: spec.SplitRandom}
			found := judged(Config{Sale: spec.Sale{Name: "movie", PerUserLimit: 1, Stock: 3, RedPacket: red}}, c.records, nil, nil)
			switch {
			case c.want == "" && len(found.violations) > 0:
				t.Errorf("unfair: %q", found.violations)
			case c.want == "" && red.Format(found.money) != c.granted:
				t.Errorf("granted %s, want %s", red.Format(found.money), c.granted)
			case c.want != "" && (len(found.violations) == 0 || !strings.Contains(strings.Join(found.violations, "; "), c.want)):
				t.Errorf("got %q, want %q", found.violations, c.want)
			}
		})
	}
}
