package dashboard

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/spec"
)

// remembered is the length of the history of a page.
const remembered = 30 * time.Minute

// point is the data of one second in a chart. Units are of the whole sale; nil if unknown. Answers
// and durations are of this process; absent if the second before was not observed.
type point struct {
	At        int64                   `json:"at"` // ms since 1970
	Available *int64                  `json:"available,omitempty"`
	Held      *int64                  `json:"held,omitempty"`
	Sold      *int64                  `json:"sold,omitempty"`
	InFlight  *int64                  `json:"inFlight,omitempty"`
	Entries   *int64                  `json:"entries,omitempty"`
	Answers   map[api.Outcome]float64 `json:"answers,omitzero"` // per second
	P50       *float64                `json:"p50,omitempty"`    // ms
	P99       *float64                `json:"p99,omitempty"`
}

// snapshot is one event: all data of a page.
type snapshot struct {
	At      time.Time              `json:"at"`
	Process string                 `json:"process,omitempty"`
	Unready *trouble               `json:"unready,omitempty"` // nil: the process is ready
	Away    *trouble               `json:"away,omitempty"`    // nil: the state of the whole sale is known
	Sale    *api.Sale              `json:"sale"`
	About   spec.About             `json:"about"`
	Answers map[api.Outcome]uint64 `json:"answers"` // in total
	Point   point                  `json:"point"`
}

// trouble is a fault and the time of its first observation.
type trouble struct {
	Why   string    `json:"why"`
	Since time.Time `json:"since"`
}

// watch makes the events of a sale's page.
type watch struct {
	process string
	state   func() State

	points []point
	at     time.Duration // monotonic: time of the last observation
	seen   bool          // there was an observation
	before State         // counts of the last observation

	unready, away *trouble
}

// event is a makeEvent of the sale.
func (w *watch) event(now clock.Now) (event, history func() []byte) {
	s := w.state()
	w.unready, w.away = w.unready.goesOn(s.Unready, now), w.away.goesOn(string(s.Sale.Outcome), now)
	p := w.point(now, s)
	first := now.Wall.Add(-remembered).UnixMilli()
	w.points = append(slices.DeleteFunc(w.points, func(p point) bool { return p.At < first }), p)
	shown := snapshot{
		At: now.Wall.UTC(), Process: w.process, Unready: w.unready, Away: w.away, Sale: s.Sale, About: s.About, Answers: s.Answers, Point: p,
	}
	return func() []byte { return encode("snapshot", shown) }, func() []byte { return encode("history", w.points) }
}

// goesOn returns the trouble with its current reason, or nil if there is none.
func (t *trouble) goesOn(why string, now clock.Now) *trouble {
	switch {
	case why == "":
		return nil
	case t == nil:
		return &trouble{why, now.Wall.UTC()}
	}
	return &trouble{why, t.Since}
}

// gap is the maximum time between two observations for which a rate is computed.
const gap = 3 * every

func (w *watch) point(now clock.Now, s State) point {
	p := point{At: now.Wall.UnixMilli()}
	if v := s.Sale; v.Outcome == "" {
		// A point outlives the state, which has all shards.
		p.Available, p.Held, p.Sold, p.InFlight = new(v.Available), new(v.Held), new(v.Sold), new(v.InFlight)
		if v.Draw != nil {
			p.Entries = new(v.Draw.Entries)
		}
	}
	if passed := now.Mono - w.at; w.seen && passed > 0 && passed <= gap {
		p.Answers = make(map[api.Outcome]float64)
		for o, n := range s.Answers {
			if before := w.before.Answers[o]; n > before {
				p.Answers[o] = math.Round(float64(n-before)/passed.Seconds()*10) / 10
			}
		}
		p.P50, p.P99 = millis(quantile(.5, w.before.Took, s.Took)), millis(quantile(.99, w.before.Took, s.Took))
	}
	w.at, w.seen, w.before = now.Mono, true, State{Answers: s.Answers, Took: s.Took}
	return p
}

func millis(seconds float64, ok bool) *float64 {
	if !ok {
		return nil
	}
	return new(math.Round(seconds*1e6) / 1e3)
}

// encode returns a server-sent event. JSON on one line needs a single data field.
func encode(kind string, v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // unreachable: every value can be encoded
	}
	return fmt.Appendf(make([]byte, 0, len(data)+len(kind)+16), "event: %s\ndata: %s\n\n", kind, data)
}

// line is one sale on the page of all sales.
type line struct {
	api.SaleSummary
	Unready string `json:"unready,omitempty"`
}

// event is a makeEvent of the page of all sales.
func (d *Dashboard) event(now clock.Now) (event, _ func() []byte) {
	sales := d.listed()
	lines := make([]line, 0, len(sales))
	for _, s := range sales {
		state := s.State()
		lines = append(lines, line{state.Sale.SaleSummary, state.Unready})
	}
	return func() []byte {
		return encode("sales", struct {
			At      time.Time `json:"at"`
			Process string    `json:"process,omitempty"`
			Sales   []line    `json:"sales"`
		}{now.Wall.UTC(), d.process, lines})
	}, nil
}

// State is the state of a sale at one time, as known to a process.
type State struct {
	// Sale is returned by GET /v1/sales/{sale} at the admin address. Its Outcome is the reason why the
	// state of the whole sale is unknown to the process; "": it is known.
	Sale  *api.Sale
	About spec.About
	// Unready is the reason why the process is not ready, as reported by /readyz; "": it is ready.
	Unready string
	// Answers counts this process's answers to claims since its start, by outcome.
	Answers map[api.Outcome]uint64
	// Took is the distribution of the durations of Answers, in seconds.
	Took *dto.Histogram
}

// quantile returns the duration, in seconds, that a share q of those between two states of a histogram did
// not exceed. It interpolates within a bucket. Durations above the last bound count as the last bound. It
// reports false if there are none.
func quantile(q float64, before, after *dto.Histogram) (seconds float64, ok bool) {
	total := after.GetSampleCount() - before.GetSampleCount()
	rank, below := q*float64(total), 0.0
	for i, b := range after.GetBucket() {
		upTo := float64(b.GetCumulativeCount() - before.GetBucket()[i].GetCumulativeCount())
		if upTo >= rank && upTo > below {
			return seconds + (b.GetUpperBound()-seconds)*(rank-below)/(upTo-below), true
		}
		seconds, below = b.GetUpperBound(), upTo
	}
	return seconds, total > 0
}
