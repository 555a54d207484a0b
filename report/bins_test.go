package report

import (
	"slices"
	"testing"
	"time"
)

func TestBinsFitTheTime(t *testing.T) {
	for last, want := range map[time.Duration]bins{
		0:                        {time.Microsecond, 1},
		85 * time.Millisecond:    {time.Millisecond, 85},
		2 * time.Second:          {20 * time.Millisecond, 100},
		2050 * time.Millisecond:  {20 * time.Millisecond, 103},
		14500 * time.Millisecond: {200 * time.Millisecond, 73},
		2 * time.Hour:            {time.Minute, 120},
		30 * 24 * time.Hour:      {6 * time.Hour, 120},
	} {
		got := binsFor(last, maxBins)
		if got != want {
			t.Errorf("%v: %v of %v, want %v of %v", last, got.n, got.width, want.n, want.width)
		}
		if !got.covers(last) || got.of(last) != got.n-1 || got.of(0) != 0 {
			t.Errorf("%v: it is in bin %d of %d", last, got.of(last), got.n)
		}
	}
	for _, last := range []time.Duration{1, 1234567, 99 * time.Minute, 400 * 24 * time.Hour, 1 << 62} {
		if b := binsFor(last, maxBins); b.n < 1 || b.n > maxBins || b.end() < last && b.end() > 0 {
			t.Errorf("%v: %d bins of %v", last, b.n, b.width)
		}
	}
}

func TestLasting(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1500 * time.Millisecond: "1.5s", 250 * time.Microsecond: "250µs", 10 * time.Second: "10s",
		time.Minute: "1m", 70 * time.Second: "1m10s", 10 * time.Minute: "10m", 75 * time.Minute: "1h15m",
		90*time.Minute + 30*time.Second: "1h30m30s", 48 * time.Hour: "48h",
	} {
		if got := lasting(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestTicks(t *testing.T) {
	for most, want := range map[float64][]float64{
		0:    {0, 1},
		3:    {0, 1, 2, 3},
		100:  {0, 50, 100},
		174:  {0, 50, 100, 150, 200},
		5000: {0, 2000, 4000, 6000},
	} {
		if got := niceTicks(most, 4); !slices.Equal(got, want) {
			t.Errorf("%v: %v, want %v", most, got, want)
		}
	}
}

// What is over in a small part of the time is shown by itself, too.
func TestTheRushIsShown(t *testing.T) {
	var times []time.Duration
	for i := range 1000 {
		times = append(times, time.Duration(i)*2*time.Millisecond)
	}
	if all := windows(times); len(all) != 1 || all[0].n != 100 {
		t.Errorf("two seconds: %+v", all)
	}
	all := windows(append(times, 2*time.Hour))
	if len(all) != 2 || all[0].width != 20*time.Millisecond || all[1].width != time.Minute {
		t.Errorf("two seconds, and one claim two hours later: %+v", all)
	}
}

func TestTenths(t *testing.T) {
	for n, want := range map[int][]int{0: nil, 3: {1, 2, 3}, 10: {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 25: {2, 5, 7, 10, 12, 15, 17, 20, 22, 25}} {
		var got []int
		end := 0
		parts, names := tenths(make([]bool, n))
		for _, part := range parts {
			end += len(part)
			got = append(got, end)
		}
		if !slices.Equal(got, want) || len(names) != len(parts) {
			t.Errorf("%d: %v named %q, want %v", n, got, names, want)
		}
	}
}

func TestPercent(t *testing.T) {
	for share, want := range map[float64]string{0: "0%", .00001: "<0.1%", .5: "50%", .3333: "33.3%", .99999: ">99.9%", 1: "100%"} {
		if got := percent(share); got != want {
			t.Errorf("%v: %s, want %s", share, got, want)
		}
	}
}
