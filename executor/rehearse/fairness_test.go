package rehearse

import (
	"net/http"
	"reflect"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/spec"
)

// asked is a request of a buyer at a time, in milliseconds, and what came of it.
func asked(key string, began, ended int, quantity int64, o api.Outcome) record {
	at := func(ms int) clock.Now { return clock.Now{Mono: time.Duration(ms) * time.Millisecond} }
	r := record{click: click{user: key, key: key, quantity: quantity}, began: at(began), ended: at(ended), sent: at(began).Mono}
	r.Outcome, r.status = o, o.Row().Status
	if o.Accepted() {
		r.Units = make([]int64, quantity)
	}
	return r
}

func TestFairness(t *testing.T) {
	paid := Config{Sale: spec.Sale{Payment: &spec.Payment{}}}
	again := asked("twice", 5, 30, 1, api.Sold)
	again.status = http.StatusOK
	// soldOut are requests overtaken by a final answer alone, noneNow by one that may be asked again.
	soldOut := func(i Inversions) Fairness { return Fairness{SoldOut: i, NoneNow: &Inversions{}} }
	noneNow := func(i Inversions) Fairness { return Fairness{NoneNow: &i} }
	for name, c := range map[string]struct {
		config  Config
		records []record
		want    Fairness
	}{
		"nobody came":  {Config{}, nil, soldOut(Inversions{})},
		"all in order": {Config{}, []record{asked("a", 1, 9, 1, api.Sold), asked("b", 2, 8, 1, api.SoldOut)}, soldOut(Inversions{})},
		"side by side": {Config{}, []record{asked("a", 4, 9, 1, api.Sold), asked("b", 1, 8, 1, api.SoldOut)},
			soldOut(Inversions{Inversions: 1, Overtaken: 1, LargestMs: 3})},
		"after the answer": {Config{}, []record{asked("a", 10, 12, 1, api.Sold), asked("b", 1, 8, 1, api.SoldOut)},
			soldOut(Inversions{Inversions: 1, Overtaken: 1, LargestMs: 9, AfterAnswer: 1})},
		"the first of two": {Config{}, []record{asked("a", 5, 12, 1, api.Sold), asked("b", 1, 8, 1, api.SoldOut), asked("c", 4, 8, 1, api.SoldOut), asked("d", 6, 8, 1, api.SoldOut)},
			soldOut(Inversions{Inversions: 1, Overtaken: 2, LargestMs: 4})},
		"who wanted more":           {Config{}, []record{asked("a", 4, 9, 1, api.Sold), asked("b", 1, 8, 2, api.SoldOut)}, soldOut(Inversions{})},
		"who would take less":       {Config{Sale: spec.Sale{Partial: true}}, []record{asked("a", 4, 9, 1, api.Sold), asked("b", 1, 8, 2, api.SoldOut)}, soldOut(Inversions{Inversions: 1, Overtaken: 1, LargestMs: 3})},
		"none now":                  {Config{}, []record{asked("a", 4, 9, 1, api.Sold), asked("b", 1, 8, 1, api.NoneNow)}, noneNow(Inversions{Inversions: 1, Overtaken: 1, LargestMs: 3})},
		"none now, and some return": {paid, []record{asked("a", 4, 9, 1, api.Held), asked("b", 1, 8, 1, api.NoneNow)}, Fairness{}},
		"sold out, and some return": {paid, []record{asked("a", 4, 9, 1, api.Held), asked("b", 1, 8, 1, api.SoldOut)}, Fairness{SoldOut: Inversions{Inversions: 1, Overtaken: 1, LargestMs: 3}}},
		"both": {Config{}, []record{asked("a", 10, 12, 1, api.Sold), asked("b", 1, 11, 1, api.SoldOut), asked("c", 2, 8, 1, api.NoneNow), asked("d", 3, 8, 1, api.NoneNow), asked("e", 11, 12, 1, api.NoneNow)},
			Fairness{SoldOut: Inversions{Inversions: 1, Overtaken: 1, LargestMs: 9}, NoneNow: &Inversions{Inversions: 1, Overtaken: 2, LargestMs: 8, AfterAnswer: 1}}},
		"the limit":         {Config{}, []record{asked("a", 4, 9, 1, api.Sold), asked("b", 1, 8, 1, api.LimitReached)}, soldOut(Inversions{})},
		"who had it before": {Config{}, []record{again, asked("b", 1, 8, 1, api.SoldOut)}, soldOut(Inversions{})},
		"sent twice, the earlier counts": {Config{}, []record{asked("twice", 9, 20, 1, api.Sold), asked("b", 7, 8, 1, api.SoldOut), again},
			soldOut(Inversions{})},
	} {
		if got := fairness(c.config, c.records); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: sold_out %+v, none_now %+v, want %+v and %+v", name, got.SoldOut, got.NoneNow, c.want.SoldOut, c.want.NoneNow)
		}
	}
}

// Every outcome has a kind, and only those without a decision are errors.
func TestKindsOfOutcomes(t *testing.T) {
	for outcome, want := range map[string]Kind{
		"sold": Given, "held": Given, "entered": Given, "replayed": GivenAgain, "sold_out": NoneLeft, "none_now": NoneLeft,
		"limit_reached": AtLimit, "not_eligible": Refused, "not_open": Refused, "closed": Refused,
		"unknown": Undecided, "overloaded": Undecided, "no_quorum": Undecided, "standby": Undecided, "http_500": Undecided,
	} {
		if got := KindOf(outcome); got != want {
			t.Errorf("%s: %v, want %v", outcome, got, want)
		}
	}
}

func TestValuesOfThresholds(t *testing.T) {
	r := sample()
	r.Attempts = []Attempt{{Took: 3 * time.Millisecond}, {Took: time.Millisecond}}
	r.Fairness = &Fairness{SoldOut: Inversions{Inversions: 4, LargestMs: 2.5}, NoneNow: &Inversions{Inversions: 7, LargestMs: 1}}
	for text, want := range map[string]string{
		"p50<2ms": "ok 1ms", "mean<2ms": "failed 2ms", "max<15ms": "failed 15.2ms", "duration<1s": "ok 112ms", "rate>20000": "ok 21455.357/s",
		"sold==100": "ok 100", "sold>=50%": "ok 50%", "given==100": "ok 100", "refused==2293": "ok 2293", "errors==0": "failed 1",
		"errors<0.1%": "ok 0.042%", "sold_out>2000": "ok 2245", "sold_out<90%": "failed 93.425%", "replayed<1%": "ok 0.375%",
		"inversions_sold_out<10": "ok 4", "inversions_sold_out<1%": "failed 4%", "largest_inversion_sold_out<=2500us": "ok 2.5ms",
		"inversions_none_now<7": "failed 7", "inversions_none_now<=7%": "ok 7%", "largest_inversion_none_now<1ms": "failed 1ms", "retries==3": "ok 3", "refunds_due==0": "ok 0",
		"unknown==0": "ok 0",
	} {
		one, err := Measures.Parse(text)
		if err != nil {
			t.Error(err)
			continue
		}
		result := one.Check(r.Values(200))
		if got := map[bool]string{true: "ok ", false: "failed "}[result.OK] + result.Value(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
