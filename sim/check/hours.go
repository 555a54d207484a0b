package check

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"

	"salectl/api"
	pb "salectl/backends/ledger/ledgerpb"
)

// hours judges claims, and what was said of the time of day, by what a right clock
// showed: no claim is accepted outside of opensAt and closesAt, and nobody is told
// that a sale is not open yet, or closed, well inside of them. What a process may be
// off is the tolerance.
func hours(e *evidence, bad fault) {
	if e.h.Begin.IsZero() {
		return
	}
	asked := e.firstInvoked()
	for _, c := range e.claims {
		opens, closes := e.h.virtual(c.settings.GetOpensAtUs()), e.h.virtual(c.settings.GetClosesAtUs())
		if c.again {
			continue
		}
		first, known := asked[request{c.user, c.key}]
		if !known {
			first = c.at.At
		}
		off := e.h.tolerance(first, c.at.At)
		if c.at.At+off < opens {
			bad("%v was stored at %v, its sale opened at %v", c, c.at.At, opens)
		}
		if said := e.h.virtual(c.timeUs()); known && said > c.at.At+off {
			bad("%v was stored at %v with the time of %v", c, c.at.At, said)
		}
		if known && closes != 0 && first-off >= closes {
			bad("%v was first asked for at %v, its sale had closed at %v", c, first, closes)
		}
	}
	for i, o := range e.all(ClaimInvoked) {
		if o.answered() {
			e.refusedByHours(i, o, bad)
		}
	}
}

// firstInvoked returns when the request of each claim came first. Nobody knows the key
// of one without.
func (e *evidence) firstInvoked() map[request]time.Duration {
	asked := make(map[request]time.Duration)
	for _, o := range e.all(ClaimInvoked) {
		id := request{o.invoked.User, o.invoked.Key}
		if o.invoked.Key == "" {
			c := e.granted(o)
			if c == nil {
				continue
			}
			id.key = c.key
		}
		if _, ok := asked[id]; !ok {
			asked[id] = o.invoked.At
		}
	}
	return asked
}

// refusedByHours judges an answer that speaks of the time of day.
func (e *evidence) refusedByHours(i int, o *operation, bad fault) {
	said := o.returned.Answer.Outcome
	r := e.runOf(o)
	if said != api.NotOpen && said != api.Closed || o.returned.Answer.Away || r == nil || len(r.shards) == 0 {
		return
	}
	off := e.h.tolerance(o.invoked.At, o.returned.At)
	timed := said == api.NotOpen // else another checker judges it
	during := r.shards[xxhash.Sum64String(o.invoked.User)%uint64(len(r.shards))].during(o.invoked.Place, o.returned.Seq)
	for _, s := range during {
		m := &s.after
		if said == api.Closed && m.closed {
			return // it takes no entries any more, whatever its hours became since
		}
		timed = timed || m.settings.GetClosesAtUs() != 0
		opens, closes := e.h.virtual(m.settings.GetOpensAtUs()), e.h.virtual(m.settings.GetClosesAtUs())
		switch {
		case said == api.Closed && m.settings.GetPhase() == phaseClosed,
			said == api.Closed && closes != 0 && o.returned.At+off >= closes:
			return
		case said == api.NotOpen && opens != 0 && o.invoked.At-off < opens:
			wait, end := o.returned.Answer.RetryAfter, off+o.returned.At-o.invoked.At
			if (o.invoked.At + wait - opens).Abs() <= end {
				return
			}
		}
	}
	if timed && len(during) > 0 {
		bad("operation %d (user %q) was answered %q, to come again in %v, between %v and %v: its shard's hours were %v",
			i, o.invoked.User, said, o.returned.Answer.RetryAfter, o.invoked.At, o.returned.At, during[len(during)-1].after.settings)
	}
}

// virtual is the virtual time of a stored one, 0 for none.
func (h *History) virtual(us int64) time.Duration {
	if us == 0 {
		return 0
	}
	return time.UnixMicro(us).Sub(h.Begin)
}

// dragged is by how much the time of a log may stay ahead when the clocks that wrote it
// were set back: what more there is is set back.
const dragged = 20 * time.Second

// drifts is what clocks that were set right run apart in the life of a world.
const drifts = 2 * time.Second

// tolerance is how far the clock of a process that decides may be off between two
// times: Slack from the lock nodes', as much again where its clock was set since it
// heard of them, what those were off, and what a log was dragged along by before.
func (h *History) tolerance(from, to time.Duration) time.Duration {
	from -= 2 * h.Slack
	worst, before := time.Duration(0), time.Duration(0)
	for i, s := range h.Skews {
		last := i+1 == len(h.Skews)
		if s.At <= to && (last || h.Skews[i+1].At >= from) {
			worst = max(worst, s.Off)
		}
		if s.At <= to {
			before = max(before, s.Off)
		}
	}
	return 2*h.Slack + drifts + worst + min(before, dragged)
}

// settings holds those of each generation against its declaration.
func settings(e *evidence, bad fault) {
	for _, r := range e.runs {
		for i, p := range r.planned {
			if len(p.GetSpec()) == 0 {
				continue // no planner has written it
			}
			var said struct {
				PerUserLimit      int64
				Partial           bool
				Queue             struct{ Order string }
				OpensAt, ClosesAt time.Time
				Units             *struct {
					Range  []string
					Choose bool
					Secret bool
				}
				Payment *struct {
					HoldForMs, GraceMs, ExtendByMs int64
					Late                           string
					UnpaidPerUser                  int64
				}
			}
			if err := json.Unmarshal(p.GetSpec(), &said); err != nil {
				if i > 0 { // else it is reported where the run is read
					bad("%v has a declaration whose settings cannot be read: %v", p.at, err)
				}
				continue
			}
			want := &pb.Settings{PerUserLimit: said.PerUserLimit, Phase: p.GetSettings().GetPhase(), Partial: said.Partial, Draw: said.Queue.Order == "draw"}
			if !said.OpensAt.IsZero() {
				want.OpensAtUs = said.OpensAt.UnixMicro()
			}
			if !said.ClosesAt.IsZero() {
				want.ClosesAtUs = said.ClosesAt.UnixMicro()
			}
			want.Secret = said.Units != nil && said.Units.Secret
			if u := said.Units; u != nil && u.Choose {
				want.Choose, want.Rows = true, rows(u.Range)
				if i > 0 { // units that came later are in rows of their own
					want.Rows = r.laterRows(i, bad)
				}
			}
			if paid := said.Payment; paid != nil {
				want.Payment = &pb.Payment{
					HoldForUs: 1000 * paid.HoldForMs, GraceUs: 1000 * paid.GraceMs, ExtendByUs: 1000 * paid.ExtendByMs,
					Late: map[string]pb.Payment_Late{"refuse": pb.Payment_REFUSE, "resell": pb.Payment_RESELL}[paid.Late], UnpaidPerUser: paid.UnpaidPerUser,
				}
			}
			if !sameSettings(p.GetSettings(), want) {
				bad("%v plans generation %d with the settings %v; it declares %v", p.at, p.GetGeneration(), p.GetSettings(), want)
			}
		}
	}
}

// rows are those of declared ranges such as A1-A4: a row each, whose units follow those of
// the one before.
func rows(declared []string) (rows []*pb.Range) {
	next := int64(1)
	for _, text := range declared {
		number := func(name string) (n int64) {
			_, _ = fmt.Sscan(strings.TrimLeftFunc(name, unicode.IsLetter), &n)
			return n
		}
		first, last, _ := strings.Cut(text, "-")
		n := number(last) - number(first) + 1
		rows = append(rows, &pb.Range{First: next, Count: n})
		next += n
	}
	return rows
}

// laterRows are the rows of a generation, by its index: those of the one before, and others
// that have the units which it adds, each one.
func (r *run) laterRows(generation int, bad fault) []*pb.Range {
	p, before := r.planned[generation], r.planned[generation-1]
	has, had := p.GetSettings().GetRows(), before.GetSettings().GetRows()
	next := before.GetNextUnit()
	for _, row := range has[min(len(had), len(has)):] {
		if row.GetFirst() != next {
			break
		}
		next += row.GetCount()
	}
	if next != p.GetNextUnit() || len(has) < len(had) || !sameRanges(has[:len(had)], had) {
		bad("%v plans generation %d with the rows %v, after %v, and adds the units from %d on", p.at, p.GetGeneration(), has, had, before.GetNextUnit())
	}
	return has
}

func sameSettings(a, b *pb.Settings) bool {
	return a.GetPerUserLimit() == b.GetPerUserLimit() && a.GetPartial() == b.GetPartial() && a.GetSecret() == b.GetSecret() && a.GetDraw() == b.GetDraw() && a.GetPhase() == b.GetPhase() &&
		a.GetChoose() == b.GetChoose() && slices.EqualFunc(a.GetRows(), b.GetRows(), func(x, y *pb.Range) bool { return proto.Equal(x, y) }) &&
		a.GetOpensAtUs() == b.GetOpensAtUs() && a.GetClosesAtUs() == b.GetClosesAtUs() && proto.Equal(a.GetPayment(), b.GetPayment())
}
