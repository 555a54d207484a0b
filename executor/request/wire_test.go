package request

import (
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"salectl/api/streampb"
	"salectl/backends/ledger/payload"
	"salectl/spec"
)

// fillAll gives every field below v a value that is not zero, each another one.
func fillAll(t *testing.T, v reflect.Value, n *int64) {
	t.Helper()
	*n++
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = time.Unix(1_700_000_000, *n).UTC()
		return
	case **spec.Packets, *[]payload.Fields:
		return // the process that answers adds them
	case *Claim:
		defer func() { x.Undelivered = false }() // the same
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillAll(t, v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillAll(t, v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fillAll(t, v.Index(i), n)
		}
	case reflect.String:
		v.SetString("text-" + string(rune('a'+*n%26)) + time.Duration(*n).String())
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(*n)
	case reflect.Uint64:
		v.SetUint(uint64(*n))
	default:
		t.Fatalf("a field is a %s, of which nothing is known here", v.Type())
	}
}

// carried takes an answer over a stream.
func carried(t *testing.T, a Answer, into *streampb.Answer) Answer {
	t.Helper()
	a.ToStream(into)
	framed := streampb.Append(nil, &streampb.Reply{Kind: &streampb.Reply_Answer{Answer: into}})
	message, _, err := streampb.Cut(framed, streampb.MaxReply)
	if err != nil {
		t.Fatal(err)
	}
	r, err := new(streampb.Decoder).Reply(message)
	if err != nil {
		t.Fatal(err)
	}
	return AnswerOf(proto.CloneOf(r).GetAnswer())
}

// No field of an answer is lost on its way over a stream: neither where all are set nor
// where only one is.
func TestAnswersGoOverAStream(t *testing.T) {
	var full Answer
	n := int64(0)
	fillAll(t, reflect.ValueOf(&full).Elem(), &n)
	into := new(streampb.Answer)
	if got := carried(t, full, into); !reflect.DeepEqual(got, full) {
		t.Errorf("\n got %+v\nwant %+v", got, full)
	}
	if got := carried(t, Answer{}, into); !reflect.DeepEqual(got, Answer{}) {
		t.Errorf("of nothing there is left %+v", got)
	}
	whole := reflect.ValueOf(&full).Elem()
	for i := range whole.NumField() {
		var one Answer
		reflect.ValueOf(&one).Elem().Field(i).Set(whole.Field(i))
		if got := carried(t, one, into); !reflect.DeepEqual(got, one) {
			t.Errorf("%s alone:\n got %+v\nwant %+v", whole.Type().Field(i).Name, got, one)
		}
	}
	claim := reflect.ValueOf(&full.Claim).Elem()
	for i := range claim.NumField() {
		var one Answer
		one.Claim.User = full.Claim.User // all claims have one
		reflect.ValueOf(&one.Claim).Elem().Field(i).Set(claim.Field(i))
		if got := carried(t, one, into); !reflect.DeepEqual(got, one) {
			t.Errorf("a claim's %s alone:\n got %+v\nwant %+v", claim.Type().Field(i).Name, got, one)
		}
	}
}

// Nor is one of a settlement.
func TestSettlementsGoOverAStream(t *testing.T) {
	var full Settlement
	n := int64(0)
	fillAll(t, reflect.ValueOf(&full).Elem(), &n)
	if got := SettlementOf(full.ToStream()); got != full {
		t.Errorf("got %+v, want %+v", got, full)
	}
}
