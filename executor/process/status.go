package process

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/executor/ownership"
	"salectl/executor/request"
	"salectl/executor/shard"
	"salectl/executor/status"
	"salectl/internal/text"
	"salectl/spec"
)

// Status is a sale as the process that serves it sees it.
type Status struct {
	// SaleSummary has no units, and the phase of the ledger, which disregards the hours. View adds the units
	// and applies the hours. Outcome is why the whole sale is unknown to this process; "": it is known. If it is set,
	// some other fields are zero, shards may be Unknown, and phase and hours are those of the sale's log.
	api.SaleSummary
	About     spec.About
	Run       int64 // by the sale's log; 0: unknown
	Sells     bool  // some shard can be written, as far as is known: while the sale is open, claims are accepted
	PerUser   int64
	Partial   bool
	Packets   *api.Packets // nil: units are no packets of money
	Shards    []shard.Status
	Nodes     []ownership.NodeStatus
	Processes []api.Process    // of the sale, as far as is known
	Moves     []api.Move       // shards that are moving or will move to another process
	Problems  []status.Problem // of this process, when they were last collected
}

// View returns the part of the status that a token with the right to claim may read: with the phase at now, and
// with the sums of all shards if all are known.
func (s *Status) View(now time.Time) *api.Sale {
	view := &api.Sale{SaleSummary: s.SaleSummary, PerUserLimit: s.PerUser, Partial: s.Partial, Packets: s.Packets, ServerTime: now.UTC()}
	view.Phase = ledger.PhaseAt(cmp.Or(s.Phase, ledger.PhaseUnknown), s.OpensAt, s.ClosesAt, now)
	if view.Phase == ledger.PhaseOpen && !s.Sells {
		view.Phase = ledger.PhaseStalled
	}
	view.OpensAt, view.ClosesAt = s.OpensAt.UTC(), s.ClosesAt.UTC()
	if s.Outcome != "" {
		return view
	}
	var holds api.Holds
	var sum ledger.Outcomes
	paid := false
	for i := range s.Shards {
		one := &s.Shards[i]
		view.Stock += one.Limit
		view.Available += one.Available
		view.Held += one.Held
		view.Sold += one.Sold
		view.InFlight += one.InFlight
		paid = paid || one.Paid
		sum.Add(one.Outcomes)
		if at := one.Release.UTC(); !at.IsZero() && (holds.NextRelease.IsZero() || at.Before(holds.NextRelease)) {
			holds.NextRelease = at
		}
	}
	view.SoldOut = view.Draw == nil && view.Stock > 0 && view.Sold == view.Stock
	if paid {
		holds.Open, holds.Confirmed, holds.Expired, holds.Cancelled = sum.OpenHolds, sum.Confirmed, sum.Expired, sum.Cancelled
		holds.Refunded, holds.Resold, holds.RefundsDue, holds.Returned = sum.Refunded, sum.Resold, sum.RefundsDue, sum.Returned
		view.Holds = &holds
	}
	return view
}

// Ready returns nil while this process can answer for every shard, by itself or through a peer, and otherwise
// the first reason why not.
func (d *Admission) Ready() error {
	t, now := d.serving.Load(), d.clock()
	switch {
	case d.draining.Load():
		return ownership.ErrDraining
	case t == nil:
		return d.absent()
	}
	h := d.health.Load()
	for _, s := range t.locals() {
		if !s.May(now) {
			_, leased := s.Leased(now)
			return h.withoutRights(leased)
		}
	}
	if stalls := status.Merge(t.stalls()); len(stalls) > 0 {
		p := stalls[0]
		return fmt.Errorf("%s: shards %s of %d are stalled since %s: %s", p.Part, p.Location(), len(t.shards), p.Since.UTC().Format(time.RFC3339), p.Why)
	}
	votes := d.away.Load().Outcome != api.NoQuorum
	known := t.totals.Shards()
	missing, stuck := []int(nil), ""
	for i := range t.shards {
		s, owner := t.local(i), t.remotes[i].Route()
		switch {
		case s == nil && (t.links.To(owner.Owner) == nil || !votes && !h.holds(i)):
			// While a shard moves it has no known owner for a moment. That is no problem.
			missing = append(missing, i)
		case s == nil && known[i].Stuck != "" && stuck == "":
			stuck = fmt.Sprintf("%s: shard %d of %d is stalled at %s", known[i].Stuck, i, len(t.shards), owner.Address)
		case s == nil:
		case !s.Serves():
			return fmt.Errorf("shard %d is being taken over", i)
		case !s.Ready():
			return fmt.Errorf("the list of shard %d is being filled", i)
		}
	}
	switch {
	case len(missing) == len(t.shards) || len(missing) > 0 && !votes:
		return d.absent()
	case len(missing) > 0:
		return fmt.Errorf("%s: no process is known to own shards %s of %d", api.Standby, text.Ranges(missing), len(t.shards))
	case stuck != "":
		return errors.New(stuck)
	}
	return nil
}

// stuck returns the part that keeps a shard of this process from being written, "" if none does.
func (d *Admission) stuck(now clock.Now, s *shard.Shard) string {
	if !s.May(now) {
		_, leased := s.Leased(now)
		return d.health.Load().withoutRights(leased).Part
	}
	if stall := s.Stalled(); stall != nil {
		return stallKind(stall).Part
	}
	return ""
}

// absent returns why this process does not serve, in more detail than the answers to requests do.
func (d *Admission) absent() error {
	away, h := d.away.Load(), d.health.Load()
	switch {
	case away.Outcome == api.NoQuorum && away.Message == notFollowed:
		return fmt.Errorf("%s: %s", status.Ledger, notFollowed)
	case away.Outcome == api.NoQuorum && away.Message != ownership.Unread:
		return h.withoutRights(false)
	case h.Unread != nil:
		return h.unread()
	case away.Outcome == api.Standby && h.Idle != "":
		return fmt.Errorf("%s: %s: %s", api.Standby, h.Idle, status.Idle.Remedy)
	}
	return fmt.Errorf("%s: %s", away.Outcome, away.Message)
}

// Status returns the state of the sale as known to this process: from its own shards, and from the updates
// of its peers.
func (d *Admission) Status() Status {
	t, h, now := d.serving.Load(), d.health.Load(), d.clock()
	away := d.away.Load().Outcome
	v := Status{Run: h.Logged.Run, Nodes: h.Nodes, Processes: h.Processes, Moves: h.Moves}
	v.Sale, v.Problems = d.sale, status.Merge(*d.problems.Load())
	if t == nil {
		v.Outcome = away
		v.setByLog(h)
		return v
	}
	v.UID, v.Packets = t.uid, t.about
	if declared := t.declared.Load(); declared != nil {
		v.About = declared.About
	}
	all := t.totals.Shards()
	settings, votes := t.settings.Load(), away != api.NoQuorum
	v.Shards = make([]shard.Status, 0, len(t.shards))
	for i := range t.shards {
		s, owner := t.local(i), t.remotes[i].Route()
		known := &all[i]
		one := shard.Status{Report: shard.Report{Shard: i}}
		switch {
		case s != nil && s.Serves():
			one = s.Status()
			one.NoLease = !s.May(now)
			v.Sells = v.Sells || !one.NoLease && one.Stall == nil
		case s == nil && known.Next > 0 && owner.Owner != "":
			one.Report = *known
			one.Paid = settings.GetPayment() != nil || !settings.GetDraw() && one.Outcomes != ledger.Outcomes{}
			one.NoLease = known.Stuck != "" && known.Stuck != status.Ledger || !votes && !h.holds(i)
			v.Sells = v.Sells || h.holds(i) && known.Stuck == "" // as far as is known here
		default:
			one.Unknown, v.Outcome = true, away
		}
		one.PerSecond = known.PerSecond
		one.Owner = ""
		if !one.Unknown || s == nil && h.holds(i) { // else it is the address of the last owner
			one.Owner = owner.Address
		}
		v.Shards = append(v.Shards, one)
		if !one.Unknown {
			v.Phase, v.Generation = known.Totals.Phase, one.Generation
		}
	}
	v.PerUser, v.Partial = settings.GetPerUserLimit(), settings.GetPartial()
	if drawn := t.drawn.Load(); drawn != nil {
		is := *drawn
		for i := range all {
			is.Winners += all[i].Totals.Limit
			is.Entries += all[i].Totals.Entries
			is.Lapsed += all[i].Totals.Lapsed()
		}
		v.Draw = &is
	}
	v.OpensAt, v.ClosesAt = ledger.Time(settings.GetOpensAtUs()), ledger.Time(settings.GetClosesAtUs())
	if v.Outcome != "" {
		v.setByLog(h)
	}
	return v
}

// setByLog sets phase and hours to those of the sale's log, and updates Sells, for a sale with unknown shards.
func (s *Status) setByLog(h *health) {
	s.Phase, s.OpensAt, s.ClosesAt = "", h.Logged.OpensAt, h.Logged.ClosesAt
	if h.Unread == nil || ledger.Over(h.Logged.Phase) {
		s.Phase = h.Logged.Phase
	}
	s.Sells = s.Sells || s.Outcome != api.NoQuorum && h.Idle == "" // as far as is known here
}

// Health returns the state of the ownership of shards when the machine last acted. It is safe for
// concurrent use.
func (m *Machine) Health() *ownership.Status { return &m.health.Load().Status }

// Away returns the answer to requests while this process does not serve, and whether it does not. It
// is safe for concurrent use.
func (m *Machine) Away() (answer request.Answer, away bool) {
	return *m.away.Load(), m.serving.Load() == nil
}

// Shards returns the shards whose lease this process has, or is about to have. It is safe for
// concurrent use.
func (m *Machine) Shards() []*shard.Shard {
	if t := m.serving.Load(); t != nil {
		return t.locals()
	}
	return nil
}

// Forwards returns the number of forwarded requests that were answered, that were sent to a process
// that does not own the shard, and that were lost with their link. It is safe for concurrent use.
func (m *Machine) Forwards() (answered, bounced, lost uint64) {
	return m.links.Answered.Load(), m.links.Bounced.Load(), m.links.Lost.Load()
}

// health is the state of this process when it last acted.
type health struct{ ownership.Status }

// holds reports whether a shard has an owner that can be reached.
func (h *health) holds(i int) bool { return i < len(h.Owners) && h.Owners[i] != "" }

// withoutRights returns the problem that keeps a serving process from appending now. leased reports whether it
// has the lease.
func (h *health) withoutRights(leased bool) status.Problem {
	switch {
	case h.ClockOff != 0:
		return h.wrongClock()
	case leased && h.Unread == nil:
		return status.Problem{Kind: status.LedgerUnread, Why: "the last read is too long ago"}
	case leased:
		return h.unread()
	}
	return h.noMajority()
}

func (h *health) wrongClock() status.Problem {
	return status.Problem{Kind: status.Clock, Why: "it is ahead by " + h.ClockOff.Round(time.Millisecond).String()}
}

func (h *health) unread() status.Problem {
	return status.Problem{Kind: status.LedgerUnread, Since: h.Logged.ReadAt, Why: shard.OneLine(h.Unread)}
}

// noMajority names the nodes that do not vote.
func (h *health) noMajority() status.Problem {
	var all []string
	for _, n := range h.Nodes {
		if s := n.String(); s != "" {
			all = append(all, s)
		}
	}
	return status.Problem{Kind: status.Quorum, Why: strings.Join(all, "; ")}
}

// Place is where the claims of some users are decided.
type Place struct {
	Shard, Shards int    // Shards is 0 if the place is unknown
	Owner         string // address of the process; "": unknown
}

// Place returns where a user's claims are decided.
func (d *Admission) Place(user string) Place {
	t := d.serving.Load()
	if t == nil {
		return Place{}
	}
	return t.place(spec.HomeShard(user, len(t.shards)))
}

// PlaceOf returns where the claims of a shard are decided.
func (d *Admission) PlaceOf(shard int) Place {
	t := d.serving.Load()
	if t == nil || shard < 0 || shard >= len(t.shards) {
		return Place{}
	}
	return t.place(shard)
}

// place returns where the claims of a shard are decided.
func (t *session) place(i int) Place {
	if t.local(i) != nil {
		return Place{Shard: i, Shards: len(t.shards), Owner: t.cfg.Address}
	}
	return Place{Shard: i, Shards: len(t.shards), Owner: t.remotes[i].Route().Address}
}

// HoldsSeen is a position in the holds of a sale. The zero value is before all of them.
type HoldsSeen struct {
	session *session
	shards  []shardSeen
}

// shardSeen is a position in the holds of a shard.
type shardSeen struct {
	shard *shard.Shard // nil: another process owns it
	next  int          // number of the next claim to read
}

// holdsAtOnce is the number of claims of a shard that are read under its lock. That takes some hundred
// microseconds, during which no commit is applied.
const holdsAtOnce = 256

// NewHolds returns the claims after seen that are held, or that have expired or were cancelled with a release
// after since, and advances seen. It reads a bounded number of claims of each shard, so that no shard waits for
// long; more reports whether further claims can be read. anew reports that this process has begun or stopped
// serving the sale since the last call, so that earlier results are void.
func (d *Admission) NewHolds(seen *HoldsSeen, since time.Time) (holds []shard.Hold, anew, more bool) {
	t := d.serving.Load()
	if t != seen.session {
		anew = true
		*seen = HoldsSeen{session: t}
		if t != nil {
			seen.shards = make([]shardSeen, len(t.shards))
		}
	}
	for i := range seen.shards {
		x := &seen.shards[i]
		if s := t.local(i); s != x.shard {
			*x = shardSeen{shard: s}
		}
		if x.shard == nil || !x.shard.Serves() {
			continue // it may not have read all of its log yet
		}
		some, next := x.shard.HoldsFrom(x.next, holdsAtOnce, since)
		more = more || next-x.next == holdsAtOnce
		holds, x.next = append(holds, some...), next
	}
	return holds, anew, more
}

// Unpaid returns a claim from the ledger, if it is held, has expired or was cancelled, and this process serves
// its shard.
func (d *Admission) Unpaid(id request.ClaimID) (shard.Hold, bool) {
	t := d.serving.Load()
	if t == nil || id.Shard >= len(t.shards) || id.Unit != 0 {
		return shard.Hold{}, false
	}
	s := t.local(id.Shard)
	if s == nil || !s.Serves() {
		return shard.Hold{}, false
	}
	return s.Unpaid(id)
}

// Declared returns the declaration of the newest generation, if this process serves the sale. Otherwise it
// returns false, with the last declaration of a run whose end this process has read, or an empty one.
func (d *Admission) Declared() (spec.Sale, bool) {
	if t := d.serving.Load(); t != nil {
		return *t.declared.Load(), true
	}
	return *d.sold.Load(), false
}

// traffic is the last samples of the counts of a session, from which the rates of requests of a process
// and its shards follow. The machine samples the counts once a second.
type traffic struct {
	sampledAt time.Duration // monotonic: of all; 0: there are none
	decided   []meter       // requests by shard; empty where no machine runs here
	requests  meter         // of clients
	forwards  meter         // requests that peers have answered
}

// meter has the last samples of a count.
type meter struct {
	at    [meterSamples]time.Duration
	count [meterSamples]uint64
	n     int // samples in all
}

// How often counts are sampled, and how many samples are kept: a rate is that of the five seconds
// before the last.
const (
	meterEvery   = time.Second
	meterSamples = 6
)

// sample adds a count and returns the rate a second, in tenths; nil: there are too few samples.
func (m *meter) sample(now time.Duration, count uint64) *float64 {
	m.at[m.n%meterSamples], m.count[m.n%meterSamples] = now, count
	m.n++
	if m.n < meterSamples {
		return nil
	}
	first := m.n % meterSamples
	rate := math.Round(float64(count-m.count[first])/(now-m.at[first]).Seconds()*10) / 10
	return &rate
}

// measure samples all counts, once a second.
func (m *Machine) measure(now clock.Now) {
	t := m.session
	if t == nil || t.sampledAt != 0 && now.Mono < t.sampledAt+meterEvery {
		return
	}
	t.sampledAt = now.Mono
	for i, s := range t.running {
		if s.Serves() {
			rate := t.decided[i].sample(now.Mono, s.Decided())
			t.totals.Measured(i, shard.Load{PerSecond: rate, Queue: s.Waiting(), Stuck: m.stuck(now, s)})
		}
	}
	came, passed := t.requests.sample(now.Mono, m.requestCount.Load()), t.forwards.sample(now.Mono, m.links.Answered.Load())
	if came != nil {
		m.Ownership.SetTraffic(ownership.Traffic{Came: *came, Passed: *passed})
	}
}
