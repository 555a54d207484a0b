package spec

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestPaymentIsRead(t *testing.T) {
	sales, _, err := Load([]string{filepath.Join(goodSpecs, "payment.yaml")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Payment{
		"everything": {HoldFor: Duration(10 * time.Minute), Grace: Duration(30 * time.Second), ExtendBy: Duration(5 * time.Minute), Late: LateResell, UnpaidPerUser: 20},
		"least":      {HoldFor: Duration(time.Second), Late: LateRefuse, UnpaidPerUser: 1000},
		"most":       {HoldFor: Duration(7 * 24 * time.Hour), Grace: Duration(time.Hour), ExtendBy: Duration(24 * time.Hour), Late: LateRefuse, UnpaidPerUser: 1_000_000},
	}
	got := map[string]Payment{}
	for _, s := range sales {
		got[s.Name] = *s.Payment
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if sales, _, err := Load([]string{"-"}, strings.NewReader(aSale("free"))); err != nil || sales[0].Payment != nil {
		t.Errorf("without payment: got %+v, %v", sales, err)
	}
}

func TestPaymentProblems(t *testing.T) {
	for name, test := range map[string]struct{ spec, want string }{
		"no unit": {"{stock: 10, lockCount: 2, payment: {holdFor: 600}, embedded: {}}",
			`<stdin>:4:52: spec.payment.holdFor has no unit
    spec: {stock: 10, lockCount: 2, payment: {holdFor: 600}, embedded: {}}
                                                       ^
  Write the unit, such as 10m.`},
		"two units": {"{stock: 10, lockCount: 2, payment: {holdFor: 10m, grace: 1m30s}, embedded: {}}",
			`<stdin>:4:64: spec.payment.grace is no duration
    spec: {stock: 10, lockCount: 2, payment: {holdFor: 10m, grace: 1m30s}, embedded: {}}
                                                                   ^
  Write a whole number and one unit, which is h, m, s or ms, such as 30s.`},
		"too long": {"{stock: 10, lockCount: 2, payment: {holdFor: 10m, extendBy: 25h}, embedded: {}}",
			`<stdin>:4:67: spec.payment.extendBy is outside of 1s to 24h
    spec: {stock: 10, lockCount: 2, payment: {holdFor: 10m, extendBy: 25h}, embedded: {}}
                                                                      ^
  Write a duration from 1s to 24h, such as 5m.`},
		"on lists": {"{stock: 9, lockCount: 2, payment: {holdFor: 10m}, engine: redis, redis: {nodes: [a:1]}, embedded: {}}",
			`<stdin>:4:32: spec.payment does not fit engine: redis, which sells every claim at once
    spec: {stock: 9, lockCount: 2, payment: {holdFor: 10m}, engine: redis, redis: {nodes: [a:1]}, embedd
                                   ^
  Remove payment, or use engine: ledger.`},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Split(aSale("paid"), "spec:")[0] + "spec: " + test.spec + "\n"
			_, _, err := Load([]string{"-"}, strings.NewReader(text))
			if err == nil || !strings.HasPrefix(err.Error(), test.want+"\n") {
				t.Errorf("got:\n%v\nwant:\n%s", err, test.want)
			}
		})
	}
}

func TestReadTerm(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1s": time.Second, "90m": 90 * time.Minute, "24h": 24 * time.Hour, "1500ms": 1500 * time.Millisecond, "86400s": 24 * time.Hour,
	} {
		if got, f := readTerm(text, "10m", MinHold, 24*time.Hour); f != nil || got != want {
			t.Errorf("%s: got %v, %v", text, got, f)
		}
	}
	for _, text := range []string{
		"0s", "0ms", "999ms", "25h", "1441m", "86400001ms", "10", "1d", "1us", "1h30m", "1.5h", "+1m", "-1m", "01m", "00s", "1 m", "1M", "m",
		"99999999999999999999h", "9223372036854775807ms",
	} {
		if got, f := readTerm(text, "10m", MinHold, 24*time.Hour); f == nil {
			t.Errorf("%s: got %v, want a refusal", text, got)
		} else if f.remedy == "" {
			t.Errorf("%s: no remedy", text)
		}
	}
	for _, text := range []string{"0s", "0h", "0ms"} {
		if got, f := readTerm(text, "30s", 0, time.Hour); f != nil || got != 0 {
			t.Errorf("%s: got %v, %v", text, got, f)
		}
	}
}

// What is written as a sale file would have it reads as it was.
func TestFormatTerm(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Millisecond: "1ms", 1500 * time.Millisecond: "1500ms", time.Second: "1s", 90 * time.Second: "90s",
		10 * time.Minute: "10m", 90 * time.Minute: "90m", 24 * time.Hour: "24h",
	} {
		got := FormatTerm(d)
		if back, f := readTerm(got, "10m", 0, 24*time.Hour); got != want || f != nil || back != d {
			t.Errorf("%v: got %s, which reads as %v, %v; want %s", d, got, back, f, want)
		}
	}
	if got := FormatTerm(1500 * time.Nanosecond); got != "1.5µs" {
		t.Errorf("a fraction of a millisecond is %s", got)
	}
}

// A Sale made by hand is held to the same as one that was stored.
func TestPaymentsThatCannotBeStored(t *testing.T) {
	for want, p := range map[string]Payment{
		"holdFor of 0s is no positive number":       {Late: LateRefuse},
		"grace of -1s":                              {HoldFor: Duration(time.Second), Grace: Duration(-time.Second), Late: LateRefuse},
		"holdFor of 1.000000001s is":                {HoldFor: Duration(time.Second + 1), Late: LateRefuse},
		"grace of 1ns is":                           {HoldFor: Duration(time.Second), Grace: 1, Late: LateRefuse},
		"extendBy of 1ns is":                        {HoldFor: Duration(time.Second), ExtendBy: 1, Late: LateRefuse},
		`late "" is not known to this program: use`: {HoldFor: Duration(time.Second)},
	} {
		s := Sale{Name: "a", Run: 1, Stock: 9, LockCount: 1, PerUserLimit: 1, LockTTL: Duration(3 * time.Second), Embedded: &Embedded{}, Payment: &p}
		if data, err := s.JSON(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %s, %v; want %s", p, data, err, want)
		}
	}
}
