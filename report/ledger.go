package report

import (
	"cmp"
	"slices"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/ledger/audit"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/report/threshold"
	"salectl/spec"
)

// Ledger is the summary of a sale's ledger for a report: sums, and a few bytes of each claim
// for the charts over time. Its only texts of claims are the names of a few users.
type Ledger struct {
	Generation uint64
	Phase      string // from the ledger
	Settings   *pb.Settings
	Claims     int64

	claims  []acceptance // sorted by time
	changes []change     // sorted by time
	shards  []shardSums
	buyers  []buyer         // users with the most units, at most topBuyers
	spread  map[int64]int64 // number of users by their units
	users   int64           // number of users with claims
	resold  int64           // number of claims sold after their holds had expired
	red     *ledger.RedPacket
}

// topBuyers is the maximum number of users that a report names.
const topBuyers = 10

// acceptance is one claim.
type acceptance struct {
	us     int64 // microseconds since 1970
	amount int64 // amount of its packets in minor units
	state  ledger.ClaimState
}

// awarded reports whether an entry of a draw has won.
func (a acceptance) awarded() bool { return a.state != ledger.StateEntered }

// change is the change of the numbers of sold and held units at one time.
type change struct {
	us         int64
	sold, held int32
}

// shardSums counts the units of one or more shards, and has the times of their claims.
type shardSums struct {
	sold, held, available int64
	claims                int64
	firstUs, lastUs       int64 // times of claims in microseconds since 1970; 0: no claims
}

type buyer struct {
	user  string
	units int64
}

// NewLedger summarizes the sale as audit.Run passes it. Of its arguments it keeps only the
// settings.
func NewLedger(sale *ledger.Sale, shards []*ledger.State) *Ledger {
	l := &Ledger{
		Generation: sale.Generation(), Phase: sale.Phase(), spread: map[int64]int64{},
		shards: make([]shardSums, len(shards)),
	}
	var dealt *spec.Packets
	if red, err := ledger.RedPacketOf(sale); err == nil && red != nil { // otherwise the audit reports it
		l.red, dealt = red, red.Deal()
	}
	n := 0
	for _, s := range shards {
		n += s.Claims()
	}
	l.claims, l.changes = make([]acceptance, 0, n), make([]change, 0, n)
	for shard, s := range shards {
		if l.Settings == nil {
			l.Settings = s.Settings()
		}
		l.shard(&l.shards[shard], s, dealt)
		l.holds(s)
		l.usersOf(s)
	}
	l.Claims = int64(n)
	slices.SortFunc(l.claims, func(a, b acceptance) int { return cmp.Compare(a.us, b.us) })
	slices.SortFunc(l.changes, func(a, b change) int { return cmp.Compare(a.us, b.us) })
	return l
}

// shard adds the claims of a shard.
func (l *Ledger) shard(sums *shardSums, s *ledger.State, dealt *spec.Packets) {
	*sums = shardSums{sold: s.Sold, held: s.Held, available: s.Available, claims: int64(s.Claims())}
	for i := range s.Claims() {
		c := s.Claim(i)
		one := acceptance{us: c.TimeUs, state: c.State}
		if dealt != nil {
			one.amount = dealt.Sum(c.Units...)
		}
		l.claims = append(l.claims, one)
		if sums.firstUs == 0 || c.TimeUs < sums.firstUs {
			sums.firstUs = c.TimeUs
		}
		sums.lastUs = max(sums.lastUs, c.TimeUs)
		if c.HeldUntilUs != 0 {
			continue // see holds
		}
		units := int32(len(c.Units))
		switch c.State {
		case ledger.StateSold:
			at := c.TimeUs
			if c.SettledUs != 0 {
				at = c.SettledUs // entry of a draw, awarded then
			}
			l.changes = append(l.changes, change{us: at, sold: units})
		case ledger.StateRefunded:
			l.changes = append(l.changes, change{us: c.TimeUs, sold: units}, change{us: c.SettledUs, sold: -units})
		}
	}
}

// holds adds the held claims of a shard, with their outcomes.
func (l *Ledger) holds(s *ledger.State) {
	for i := range s.HoldRecords() {
		h, ok := s.HoldOf(i)
		if !ok {
			continue
		}
		c := s.Claim(h.Claim)
		units := int32(len(c.Units))
		l.changes = append(l.changes, change{us: h.SinceUs, held: units})
		if h.EndedUs == 0 {
			continue
		}
		l.changes = append(l.changes, change{us: h.EndedUs, held: -units})
		switch c.State {
		case ledger.StateSold:
			l.changes = append(l.changes, change{us: c.SettledUs, sold: units})
			if c.SettledUs > h.EndedUs {
				l.resold++
			}
		case ledger.StateRefunded:
			l.changes = append(l.changes, change{us: h.EndedUs, sold: units}, change{us: c.SettledUs, sold: -units})
		}
	}
}

// usersOf adds the units of a shard's users. Each user is on one shard.
func (l *Ledger) usersOf(s *ledger.State) {
	for user, units := range s.Users() {
		l.users++
		l.spread[units]++
		more := func(a, b buyer) int { return cmp.Or(cmp.Compare(b.units, a.units), cmp.Compare(a.user, b.user)) }
		one := buyer{user, units}
		if units == 0 || len(l.buyers) == topBuyers && more(one, l.buyers[topBuyers-1]) > 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(l.buyers, one, more)
		l.buyers = slices.Insert(l.buyers, at, one)
		l.buyers = l.buyers[:min(len(l.buyers), topBuyers)]
	}
}

// Begin returns the time of the first claim; zero if there is none.
func (l *Ledger) Begin() time.Time {
	if len(l.claims) == 0 {
		return time.Time{}
	}
	return time.UnixMicro(l.claims[0].us).UTC()
}

// Took returns the time from the first to the last claim.
func (l *Ledger) Took() time.Duration {
	if len(l.claims) == 0 {
		return 0
	}
	return l.since(l.claims[len(l.claims)-1].us)
}

// since returns the time from the first claim.
func (l *Ledger) since(us int64) time.Duration {
	return time.Duration(us-l.claims[0].us) * time.Microsecond
}

// IsDraw reports whether claims are entries.
func (l *Ledger) IsDraw() bool { return l.Settings.GetDraw() }

// isHeld reports whether claims are, or were, held until paid.
func (l *Ledger) isHeld() bool {
	return slices.ContainsFunc(l.changes, func(c change) bool { return c.held != 0 })
}

// AuditMeasures are the metrics for thresholds of an audit; docs/reports.md describes them.
var AuditMeasures = threshold.Metrics{All: []threshold.Metric{
	{Name: "stock"},
	{Name: "sold", Of: "stock"},
	{Name: "held", Of: "stock"},
	{Name: "available", Of: "stock"},
	{Name: "in_flight", Of: "stock"},
	{Name: "users"},
	{Name: "claims"},
	{Name: "expired", Of: "claims"},
	{Name: "cancelled", Of: "claims"},
	{Name: "refunded", Of: "claims"},
	{Name: "refunds_due"},
	{Name: "problems"},
	{Name: "warnings"},
	{Name: "duration", Unit: threshold.Duration},
	{Name: "rate", Unit: threshold.Rate},
}}

// AuditValues returns the values of these metrics for an audit.
func AuditValues(a *audit.Report, l *Ledger) threshold.Values {
	of := map[string]float64{
		"stock": float64(a.Stock), "sold": float64(a.Sold), "held": float64(a.Held),
		"available": float64(a.Available), "in_flight": float64(a.InFlight), "users": float64(a.Users),
		"claims": float64(l.Claims), "expired": float64(a.Expired), "cancelled": float64(a.Cancelled),
		"refunded": float64(a.Refunded), "refunds_due": float64(a.Owed()),
		"problems": float64(len(a.Problems)), "warnings": float64(len(a.Warnings)),
		"duration": float64(l.Took()) / float64(time.Millisecond),
	}
	if took := l.Took(); took > 0 {
		of["rate"] = float64(l.Claims) / took.Seconds()
	}
	return threshold.Values{Of: of}
}
