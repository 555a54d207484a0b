package dashboard

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/spec"
)

// remembered is the length of the history of a page.
const remembered = 5 * time.Minute

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
	Shards  *columns               `json:"shards,omitempty"` // nil: unknown
	Answers map[api.Outcome]uint64 `json:"answers"`          // in total
	Point   point                  `json:"point"`
}

// trouble is a fault and the time of its first observation.
type trouble struct {
	Why   string    `json:"why"`
	Since time.Time `json:"since"`
}

// columns are the shards in order, from 0. The format is compact, since a sale may have a thousand.
type columns struct {
	Owners    []string   `json:"owners"`
	Owner     []int      `json:"owner"` // index in Owners; -1: no known owner
	State     []string   `json:"state"`
	Available []int64    `json:"available"`
	Held      []int64    `json:"held"`
	Sold      []int64    `json:"sold"`
	Entries   []int64    `json:"entries,omitempty"`
	Load      []*float64 `json:"load"`
	Waiting   []int      `json:"waiting"`
	Busy      []int      `json:"busy,omitempty"` // numbers of the shards with Shard.Busy
}

// States of a shard.
const (
	unknown = "unknown"  // not reported by any process
	stalled = "stalled"  // its log cannot be read or written
	noLease = "no-lease" // its owner, or last owner, must not write now
	moving  = "moving"   // moving to another process
	selling = "selling"  // it has units for sale
	none    = "none"     // no unit is for sale now; some are held or in transit
	soldOut = "sold-out" // all its units are sold
	drawing = "drawing"  // it accepts entries of a draw
)

// watch makes the events of a sale's page.
type watch struct {
	process string
	look    func() Look

	points []point
	at     time.Duration // monotonic: time of the last look
	seen   bool          // there was a look
	before Look          // counts of the last look

	unready, away *trouble
}

func newWatch(process string, look func() Look) *watch { return &watch{process: process, look: look} }

// event queries the sale and returns the next event.
func (w *watch) event(now clock.Now) (event []byte, history func() []byte) {
	l := w.look()
	w.unready, w.away = w.unready.goesOn(l.Unready, now), w.away.goesOn(string(l.Away), now)
	p := w.point(now, l)
	first := now.Wall.Add(-remembered).UnixMilli()
	w.points = append(slices.DeleteFunc(w.points, func(p point) bool { return p.At < first }), p)
	sale := *l.View
	sale.ServerTime, sale.Owners, sale.Shards = now.Wall.UTC(), nil, nil // they are in columns and problems
	return encode("snapshot", snapshot{
		At: now.Wall.UTC(), Process: w.process, Unready: w.unready, Away: w.away, Sale: &sale, About: l.About,
		Shards: columnsOf(l), Answers: l.Answers, Point: p,
	}), func() []byte { return encode("history", w.points) }
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

// gap is the maximum time between two looks for which a rate is computed.
const gap = 3 * every

func (w *watch) point(now clock.Now, l Look) point {
	p := point{At: now.Wall.UnixMilli()}
	if l.Away == "" {
		v := l.View
		p.Available, p.Held, p.Sold, p.InFlight = &v.Available, &v.Held, &v.Sold, &v.InFlight
		if v.Draw != nil {
			p.Entries = &v.Draw.Entries
		}
	}
	if passed := now.Mono - w.at; w.seen && passed > 0 && passed <= gap {
		p.Answers = make(map[api.Outcome]float64)
		for o, n := range l.Answers {
			if before := w.before.Answers[o]; n > before {
				p.Answers[o] = math.Round(float64(n-before)/passed.Seconds()*10) / 10
			}
		}
		took := l.Took.since(w.before.Took)
		p.P50, p.P99 = millis(took.quantile(.5)), millis(took.quantile(.99))
	}
	w.at, w.seen, w.before = now.Mono, true, Look{Answers: l.Answers, Took: l.Took}
	return p
}

func millis(seconds float64, ok bool) *float64 {
	if !ok {
		return nil
	}
	ms := math.Round(seconds*1e6) / 1e3
	return &ms
}

func columnsOf(l Look) *columns {
	if len(l.Shards) == 0 {
		return nil
	}
	c := &columns{Owners: []string{}}
	for _, s := range l.Shards {
		at := slices.Index(c.Owners, s.Owner)
		if at < 0 && s.Owner != "" {
			at = len(c.Owners)
			c.Owners = append(c.Owners, s.Owner)
		}
		c.Owner, c.State = append(c.Owner, at), append(c.State, s.state(l.View.Draw != nil))
		c.Available, c.Held, c.Sold = append(c.Available, s.Available), append(c.Held, s.Held), append(c.Sold, s.Sold)
		c.Load, c.Waiting = append(c.Load, s.Load), append(c.Waiting, s.Waiting)
		if l.View.Draw != nil {
			c.Entries = append(c.Entries, s.Entries)
		}
		if s.Busy {
			c.Busy = append(c.Busy, s.Shard)
		}
	}
	return c
}

func (s *Shard) state(draw bool) string {
	switch {
	case s.Stalled:
		return stalled
	case s.NoLease:
		return noLease
	case s.Moving:
		return moving
	case !s.Known:
		return unknown
	case draw && s.Sold == 0:
		return drawing
	case s.Available > 0:
		return selling
	case s.Held > 0 || s.InFlight > 0:
		return none
	}
	return soldOut
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
	Away    string    `json:"away,omitempty"`
	Unready string    `json:"unready,omitempty"`
	Sale    *api.Sale `json:"sale"` // its units, phase and hours
}

// event returns the next event of the page of all sales.
func (d *Dashboard) event(now clock.Now) (event []byte, history func() []byte) {
	sales := d.listed()
	lines := make([]line, 0, len(sales))
	for _, s := range sales {
		look := s.Look()
		v := look.View
		lines = append(lines, line{string(look.Away), look.Unready, &api.Sale{
			Sale: s.Name, UID: v.UID, Phase: v.Phase, SoldOut: v.SoldOut, Stock: v.Stock, Available: v.Available, Held: v.Held, Sold: v.Sold,
			InFlight: v.InFlight, OpensAt: v.OpensAt, ClosesAt: v.ClosesAt, Draw: v.Draw, ServerTime: now.Wall.UTC(),
		}})
	}
	return encode("sales", struct {
		At      time.Time `json:"at"`
		Process string    `json:"process,omitempty"`
		Sales   []line    `json:"sales"`
	}{now.Wall.UTC(), d.process, lines}), nil
}

// Look is the state of a sale at one time, as known to a process.
type Look struct {
	// View is the sale as returned by GET /v1/sales/{sale}. With Away it contains no units, phase
	// and hours.
	View  *api.Sale
	About spec.About
	// Away is the reason why the process does not know the state of the whole sale; "": it does.
	Away api.Outcome
	// Unready is the reason why the process is not ready, as reported by /readyz; "": it is ready.
	Unready string
	// Shards are all shards, or the known ones. Empty means that nothing is known.
	Shards []Shard
	// Answers counts this process's answers to claims since its start, by outcome.
	Answers map[api.Outcome]uint64
	// Took is the distribution of the durations of Answers.
	Took Histogram
}

// Shard is the state of one shard.
type Shard struct {
	Shard     int
	Known     bool   // the state of its units is known
	Owner     string // an address; "": no known owner
	Available int64
	Held      int64
	Sold      int64
	InFlight  int64
	Entries   int64    // of a draw
	Load      *float64 // decided requests per second; nil: unknown
	Waiting   int
	Busy      bool // its load is far above that of the others
	Stalled   bool // its log cannot be read or written
	NoLease   bool // its owner, or last owner, must not write to it now
	Moving    bool // it is moving to another process
}

// Histogram counts durations. Bounds are in seconds, ascending. Each of Counts counts the durations
// up to its bound and above the previous one; the last counts those above all bounds.
type Histogram struct {
	Bounds []float64
	Counts []uint64
}

// since returns the counts added after before, an earlier state of the same histogram.
func (h Histogram) since(before Histogram) Histogram {
	if len(before.Counts) != len(h.Counts) {
		return h
	}
	d := Histogram{Bounds: h.Bounds, Counts: make([]uint64, len(h.Counts))}
	for i, n := range h.Counts {
		d.Counts[i] = n - before.Counts[i]
	}
	return d
}

// quantile returns the duration, in seconds, that a share q of all did not exceed. It interpolates
// within a bucket. Durations above the last bound count as the last bound. It reports false if the
// histogram is empty.
func (h Histogram) quantile(q float64) (seconds float64, ok bool) {
	total := uint64(0)
	for _, n := range h.Counts {
		total += n
	}
	if total == 0 || len(h.Bounds) == 0 {
		return 0, false
	}
	rank, below := q*float64(total), 0.0
	for i, bound := range h.Bounds {
		n := float64(h.Counts[i])
		if below+n >= rank && n > 0 {
			from := 0.0
			if i > 0 {
				from = h.Bounds[i-1]
			}
			return from + (bound-from)*(rank-below)/n, true
		}
		below += n
	}
	return h.Bounds[len(h.Bounds)-1], true
}
