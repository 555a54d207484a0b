package feed

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"salectl/api"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
)

// Event is an event of a log in the format of CloudEvents 1.0. Source and ID identify it
// permanently: a repeated delivery has the same ID.
type Event struct {
	SpecVersion  string `json:"specversion"` // 1.0
	Type         string `json:"type"`
	Source       string `json:"source"` // /v1/sales/<sale>/<uid>
	ID           string `json:"id"`
	Time         string `json:"time"`              // RFC 3339, UTC: time of the commit; of TypeResolved: of the batch
	Subject      string `json:"subject,omitempty"` // id of the claim
	Sequence     string `json:"sequence"`          // orders the events of one PartitionKey bytewise
	PartitionKey string `json:"partitionkey"`      // shard number, "sale" or "resolved"
	ContentType  string `json:"datacontenttype"`   // application/json
	Data         any    `json:"data"`
}

// prefix begins the types of all events.
const prefix = "salectl."

// Types of events. The type of a claim's event is TypeClaim and the new state or change.
const (
	TypeClaim         = prefix + "claim."
	TypeGeneration    = prefix + "shard.generation"
	TypeEntries       = prefix + "shard.entries_closed"
	TypeShardSealed   = prefix + "shard.sealed"
	TypeSetBack       = prefix + "shard.clock_set_back"
	TypePlanned       = prefix + "sale.planned"
	TypeApplied       = prefix + "sale.applied"
	TypeEntriesClosed = prefix + "sale.entries_closed"
	TypeDrawn         = prefix + "sale.drawn"
	TypeRanked        = prefix + "sale.ranked"
	TypeSealed        = prefix + "sale.sealed"
	TypeDestroyed     = prefix + "sale.destroyed"
	TypeCommit        = prefix + "commit"
	TypeResolved      = prefix + "resolved"
)

// Claim is the data of an event of a claim. The first event of a claim has all its fields. A field
// that a later event omits is unchanged. Names and values are those of an export.
type Claim struct {
	Claim     string              `json:"claim"`
	Shard     int                 `json:"shard"`
	State     string              `json:"state,omitempty"` // new state; "": unchanged
	User      string              `json:"user,omitempty"`
	Units     []int64             `json:"units,omitempty"`
	Asked     int64               `json:"asked,omitempty"`
	Amounts   []string            `json:"amounts,omitempty"`
	Currency  string              `json:"currency,omitempty"` // ISO 4217 code of the currency of Amounts
	Payloads  []map[string]string `json:"payloads,omitempty"`
	At        string              `json:"at,omitempty"` // of a grab: time at which the node gave it
	Key       string              `json:"key,omitempty"`
	KeyBase64 []byte              `json:"keyBase64,omitempty"`
	HeldUntil string              `json:"heldUntil,omitempty"`
	Payment   string              `json:"payment,omitempty"`
	Who       string              `json:"who,omitempty"`
	Why       string              `json:"why,omitempty"`
	Retired   bool                `json:"retired,omitempty"`
}

// Generation is the data of TypeGeneration and TypePlanned: the settings from this slot on.
type Generation struct {
	Shard        *int   `json:"shard,omitempty"`
	Generation   uint64 `json:"generation"`
	Phase        string `json:"phase"`
	OpensAt      string `json:"opensAt,omitempty"`
	ClosesAt     string `json:"closesAt,omitempty"`
	PerUserLimit int64  `json:"perUserLimit"`
	Run          int64  `json:"run,omitempty"`        // of TypePlanned, like the fields below
	Who          string `json:"who,omitempty"`        // user@host
	PlanDigest   string `json:"planDigest,omitempty"` // SHA-256, in hex
}

// Applied is the data of TypeApplied: every shard has the generation.
type Applied struct {
	Generation uint64 `json:"generation"`
}

// Entries is the data of TypeEntries and TypeEntriesClosed.
type Entries struct {
	Shard *int   `json:"shard,omitempty"`
	Count int64  `json:"count"`
	Root  string `json:"root"` // in hex
}

// Drawn is the data of TypeDrawn.
type Drawn struct {
	Link   string `json:"link"` // in hex
	Beacon string `json:"beacon,omitempty"`
	Ranks  int64  `json:"ranks"`
}

// Ranked is the data of TypeRanked. The claims have consecutive ranks that begin with First.
type Ranked struct {
	First  int64    `json:"first"`
	Claims []string `json:"claims"`
}

// OfShard is the data of TypeShardSealed and TypeSetBack.
type OfShard struct {
	Shard  int    `json:"shard"`
	Before string `json:"before,omitempty"` // of TypeSetBack: time of the previous commit
}

// Sealed is the data of TypeSealed: the result of the sale.
type Sealed struct {
	Roots        []string `json:"roots"` // per shard: the hash of its last slot
	Slots        []uint64 `json:"slots"`
	Claims       int64    `json:"claims"`
	UnitsSold    int64    `json:"unitsSold"`
	ExportDigest string   `json:"exportDigest,omitempty"` // SHA-256, in hex
}

// Commit is the data of TypeCommit: the stored bytes of a slot, which prove the hash chain. A slot
// that may not be disclosed has the hash alone.
type Commit struct {
	Log    string      `json:"log"`
	Shard  *int        `json:"shard,omitempty"`
	Slot   uint64      `json:"slot"`
	Hash   ledger.Hash `json:"hash"`
	Commit []byte      `json:"commit,omitempty"` // base64
}

// Resolved is the data of TypeResolved: all events before Position are delivered, and every later
// event lies after it.
type Resolved struct {
	Position string `json:"position"`
	// Through is the earliest of the last commit times of the unsealed shards, or the latest of all
	// if every shard is sealed. Later events have no earlier time, except after a TypeSetBack. ""
	// means that a shard has no commit.
	Through string `json:"through,omitempty"`
	Logs    []End  `json:"logs"`
	Ended   bool   `json:"ended,omitempty"` // no event follows
}

// End is the place that the feed has reached in a log.
type End struct {
	Log   string      `json:"log"`
	Shard *int        `json:"shard,omitempty"`
	Slots uint64      `json:"slots"`
	Hash  ledger.Hash `json:"hash"` // of the last slot; without slots, of the log's name
}

// eventMaker makes the events of one log.
type eventMaker struct {
	source   string
	shard    int // -1: the sale's own log
	commits  bool
	amounts  func(unit int64) string // nil: units are not packets of money
	currency string                  // of the amounts
	events   []Event
}

// partition returns the partition key of the log's events.
func (t *eventMaker) partition() string {
	if t.shard < 0 {
		return "sale"
	}
	return strconv.Itoa(t.shard)
}

func (t *eventMaker) number() *int {
	if t.shard < 0 {
		return nil
	}
	return &t.shard
}

// add appends an event for op index of a slot. Index -1 means the slot itself.
func (t *eventMaker) add(kind string, slot uint64, index int, timeUs int64, data any) *Event {
	id := t.partition() + "-" + strconv.FormatUint(slot, 10)
	if index >= 0 {
		id += "-" + strconv.Itoa(index)
	}
	t.events = append(t.events, Event{
		SpecVersion: "1.0", Type: kind, Source: t.source, ID: id, Time: ledger.FormatTime(timeUs),
		Sequence: fmt.Sprintf("%015d-%06d", slot, index+1), PartitionKey: t.partition(),
		ContentType: "application/json", Data: data,
	})
	return &t.events[len(t.events)-1]
}

// slot appends the events of a commit of a shard's log. beforeUs is the time of the previous slot.
func (t *eventMaker) slot(c *pb.Commit, slot uint64, beforeUs int64) {
	for i, op := range c.GetOps() {
		switch op := op.GetOp().(type) {
		case *pb.Op_Claim:
			t.claim(c, slot, i, op.Claim)
		case *pb.Op_Settle:
			t.settle(c, slot, i, op.Settle)
		case *pb.Op_Generation:
			g := generation(op.Generation.GetNumber(), op.Generation.GetSettings())
			g.Shard = t.number()
			t.add(TypeGeneration, slot, i, c.GetTimeUs(), g)
		case *pb.Op_Entries:
			t.add(TypeEntries, slot, i, c.GetTimeUs(), Entries{t.number(), op.Entries.GetCount(), fmt.Sprintf("%x", op.Entries.GetRoot())})
		case *pb.Op_Seal:
			t.add(TypeShardSealed, slot, i, c.GetTimeUs(), OfShard{Shard: t.shard})
		case *pb.Op_Own:
			if c.GetTimeUs() < beforeUs {
				t.add(TypeSetBack, slot, i, c.GetTimeUs(), OfShard{t.shard, ledger.FormatTime(beforeUs)})
			}
		}
	}
}

func (t *eventMaker) claim(c *pb.Commit, slot uint64, i int, op *pb.Claim) {
	d := &Claim{
		Claim: claimID(t.shard, slot, i), Shard: t.shard, State: "sold", User: op.GetUser(), Units: op.GetUnits(), Asked: int64(op.GetAsked()),
		HeldUntil: ledger.FormatTime(op.GetHeldUntilUs()),
	}
	switch {
	case op.GetEntry():
		d.State = "entered"
	case op.GetFill() != 0 && len(d.Units) == 1:
		d.Claim, d.At = ledger.GrabID(t.shard, d.Units[0]), ledger.FormatTime(op.GetGrantedUs())
	case op.GetHeldUntilUs() != 0:
		d.State = "held"
	}
	if d.Amounts = t.worth(d.Units); d.Amounts != nil {
		d.Currency = t.currency
	}
	if key := op.GetKey(); utf8.Valid(key) {
		d.Key = string(key)
	} else {
		d.KeyBase64 = key
	}
	t.add(TypeClaim+d.State, slot, i, c.GetTimeUs(), d).Subject = d.Claim
}

// worth returns the amounts of units, or nil if units are not packets of money.
func (t *eventMaker) worth(units []int64) (all []string) {
	if t.amounts == nil {
		return nil
	}
	for _, unit := range units {
		all = append(all, t.amounts(unit))
	}
	return all
}

func claimID(shard int, slot uint64, index int) string {
	return api.ClaimID{Shard: shard, Slot: slot, Index: index}.String()
}

// settle appends the event of a Settle. A writer appends a Settle only if the reducer finds that it
// changes the state just before that slot. So every Settle in a log takes effect, and its meaning
// needs no fold.
func (t *eventMaker) settle(c *pb.Commit, slot uint64, i int, op *pb.Settle) {
	d := &Claim{
		Claim: claimID(t.shard, op.GetSlot(), int(op.GetIndex())), Shard: t.shard, Units: op.GetUnits(),
		HeldUntil: ledger.FormatTime(op.GetHeldUntilUs()), Payment: op.GetPayment(), Who: op.GetWho(), Why: op.GetReason(), Retired: op.GetRetire(),
	}
	kind := ""
	switch op.GetHow() {
	case pb.Settle_CONFIRM:
		kind, d.State = "confirmed", "sold"
	case pb.Settle_CANCEL:
		kind, d.State = "cancelled", "cancelled"
	case pb.Settle_EXPIRE:
		kind, d.State = "expired", "expired"
	case pb.Settle_EXTEND:
		kind, d.State = "extended", "held"
	case pb.Settle_REFUND:
		kind, d.State = "refunded", "refunded"
	case pb.Settle_RESELL:
		kind, d.State = "resold", "sold"
	case pb.Settle_REFUND_DUE:
		kind = "refund_due"
	case pb.Settle_AWARD:
		kind, d.State = "awarded", "sold"
		if op.GetHeldUntilUs() != 0 {
			d.State = "held"
		}
	default:
		kind = "settled" // by a newer program
	}
	t.add(TypeClaim+kind, slot, i, c.GetTimeUs(), d).Subject = d.Claim
}

func generation(number uint64, s *pb.Settings) *Generation {
	return &Generation{
		Generation: number, Phase: ledger.PhaseName(s.GetPhase()), OpensAt: ledger.FormatTime(s.GetOpensAtUs()), ClosesAt: ledger.FormatTime(s.GetClosesAtUs()), PerUserLimit: s.GetPerUserLimit(),
	}
}

// saleSlot appends the events of a commit of the sale's own log.
func (t *eventMaker) saleSlot(c *pb.Commit, slot uint64) {
	for i, op := range c.GetOps() {
		add := func(kind string, data any) { t.add(kind, slot, i, c.GetTimeUs(), data) }
		switch op := op.GetOp().(type) {
		case *pb.Op_Planned:
			g := generation(op.Planned.GetGeneration(), op.Planned.GetSettings())
			g.Run, g.Who, g.PlanDigest = op.Planned.GetRun(), op.Planned.GetWho(), fmt.Sprintf("%x", op.Planned.GetPlanDigest())
			add(TypePlanned, g)
		case *pb.Op_Applied:
			add(TypeApplied, Applied{op.Applied.GetGeneration()})
		case *pb.Op_EntriesClosed:
			e := Entries{Root: fmt.Sprintf("%x", op.EntriesClosed.GetRoot())}
			for _, n := range op.EntriesClosed.GetCounts() {
				e.Count += n
			}
			add(TypeEntriesClosed, e)
		case *pb.Op_Drawn:
			add(TypeDrawn, Drawn{fmt.Sprintf("%x", op.Drawn.GetLink()), fmt.Sprintf("%x", op.Drawn.GetBeacon()), op.Drawn.GetRanks()})
		case *pb.Op_Ranked:
			r := Ranked{First: op.Ranked.GetFirst(), Claims: []string{}}
			for n, shard := range op.Ranked.GetShards() {
				r.Claims = append(r.Claims, claimID(int(shard), op.Ranked.GetSlots()[n], int(op.Ranked.GetIndexes()[n])))
			}
			add(TypeRanked, r)
		case *pb.Op_Sealed:
			s := Sealed{Roots: []string{}, Slots: op.Sealed.GetSlots(), Claims: op.Sealed.GetClaims(), UnitsSold: op.Sealed.GetUnitsSold(), ExportDigest: fmt.Sprintf("%x", op.Sealed.GetExportDigest())}
			for _, root := range op.Sealed.GetRoots() {
				s.Roots = append(s.Roots, fmt.Sprintf("%x", root))
			}
			add(TypeSealed, s)
		case *pb.Op_Destroyed:
			add(TypeDestroyed, struct{}{})
		}
	}
}

// commit appends the stored bytes of a slot if Config.Commits is set. addSaleEvents passes no bytes for a
// slot with a plan, which contains the seed of a red packet and the addresses of the servers.
func (t *eventMaker) commit(log string, slot uint64, hash ledger.Hash, timeUs int64, entry []byte) {
	if t.commits {
		t.add(TypeCommit, slot, -1, timeUs, &Commit{log, t.number(), slot, hash, entry})
	}
}
