package spec

import (
	"reflect"
	"strings"
	"testing"
)

func loadedDraws(t *testing.T) []Sale {
	t.Helper()
	sales, _, err := Load([]string{goodSpecs + "/draw.yaml"}, nil)
	if err != nil || len(sales) != 2 {
		t.Fatalf("%d sales, %v", len(sales), err)
	}
	return sales
}

func TestDraw(t *testing.T) {
	sales := loadedDraws(t)
	for i, want := range []Draw{
		{KeyEnv: "DRAW_KEY", Substitutes: 40, Beacon: &Beacon{"drand quicknet", "12345", FallbackSecret}},
		{KeyFile: goodSpecs + "/draw.key", Substitutes: 100, Beacon: &Beacon{"the lottery of Saturday", "2026-11-28", FallbackNone}},
	} {
		if got := sales[i].Draw; !strings.HasSuffix(got.KeyFile, strings.TrimLeft(want.KeyFile, "./")) || got.Substitutes != want.Substitutes ||
			got.KeyEnv != want.KeyEnv || !reflect.DeepEqual(got.Beacon, want.Beacon) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		text, err := sales[i].JSON()
		if err != nil {
			t.Fatal(err)
		}
		read, err := FromJSON(text)
		if want.KeyFile = ""; err != nil || !reflect.DeepEqual(*read.Draw, want) || read.Queue.Order != OrderDraw {
			t.Errorf("from its JSON it is %+v, %v", read.Draw, err)
		}
	}
}

// What Load would refuse, a stored declaration must not have either.
func TestDrawIsSane(t *testing.T) {
	for want, change := range map[string]func(*Sale){
		"order: draw and the block draw need each other": func(s *Sale) { s.Draw = nil },
		"draw need each other":                           func(s *Sale) { s.Queue = nil },
		"closesAt":                                       func(s *Sale) { s.ClosesAt = Sale{}.ClosesAt },
		"perUserLimit 1":                                 func(s *Sale) { s.PerUserLimit = 2 },
		"neither partial":                                func(s *Sale) { s.Partial = true },
		"units to choose":                                func(s *Sale) { s.Units = &Units{Ranges: []string{"A1-A100"}, Choose: true} },
		"resells to late":                                func(s *Sale) { s.Payment = &Payment{HoldFor: Duration(MinHold), Late: LateResell} },
		"both keyEnv and":                                func(s *Sale) { s.Draw.KeyFile = "draw.key" },
		"ranks":                                          func(s *Sale) { s.Draw.Substitutes = MaxRanks },
		"round \" \" is blank":                           func(s *Sale) { s.Draw.Beacon.Round = " " },
		"use a newer one":                                func(s *Sale) { s.Draw.Beacon.Fallback = "redraw" },
	} {
		s := loadedDraws(t)[0]
		change(&s)
		if _, err := s.JSON(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
