package feed

import (
	"encoding/hex"
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

// Types of events that are referred to elsewhere. docs/feed.md lists all types.
const (
	typeClaim    = "salectl.claim." // and the new state or change
	typeCommit   = "salectl.commit"
	TypeResolved = api.EventResolved
)

// Claim is the data of an event of a claim. The first event of a claim has all its fields. A field
// that a later event omits is unchanged. Names and values are those of an export.
type Claim struct {
	Claim     string              `json:"claim"`
	Shard     int                 `json:"shard"`
	State     string              `json:"state,omitempty"` // new state; "": unchanged
	User      string              `json:"user,omitempty"`
	Units     []int64             `json:"units,omitempty"`
	Requested int64               `json:"requested,omitempty"`
	Amounts   []string            `json:"amounts,omitempty"`
	Currency  string              `json:"currency,omitempty"` // ISO 4217 code of the currency of Amounts
	Payloads  []map[string]string `json:"payloads,omitempty"`
	At        string              `json:"at,omitempty"` // of a grab: time at which the list node granted it
	Key       string              `json:"key,omitempty"`
	KeyBase64 []byte              `json:"keyBase64,omitempty"`
	HeldUntil string              `json:"heldUntil,omitempty"`
	Payment   string              `json:"payment,omitempty"`
	Who       string              `json:"who,omitempty"`
	Why       string              `json:"why,omitempty"`
	Retired   bool                `json:"retired,omitempty"`
}

// fields are the data of an event of a shard or of the sale. Hashes are in hex.
type fields map[string]any

// Commit is the data of an event of a slot: the stored bytes of a slot, which prove the hash chain. A slot
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
	// if every shard is sealed. Later events have no earlier time, except after an event clock_set_back. ""
	// means that a shard has no commit.
	Through string `json:"through,omitempty"`
	Logs    []End  `json:"logs"`
	Ended   bool   `json:"ended,omitempty"` // no event follows
}

// End is the position of the feed in one log.
type End struct {
	Log   string `json:"log"`
	Shard *int   `json:"shard,omitempty"`
	Place
}

// eventMaker makes the events of one log.
type eventMaker struct {
	source   string
	shard    int // -1: the sale's own log
	commits  bool
	amounts  func(unit int64) string // nil: units are not packets of money
	currency string                  // of the amounts
	out      *[]Event
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
	*t.out = append(*t.out, Event{
		SpecVersion: "1.0", Type: kind, Source: t.source, ID: id, Time: ledger.FormatTime(timeUs),
		Sequence: fmt.Sprintf("%015d-%06d", slot, index+1), PartitionKey: t.partition(),
		ContentType: "application/json", Data: data,
	})
	return &(*t.out)[len(*t.out)-1]
}

// slot appends the events of a commit. beforeUs is the time of the previous slot.
func (t *eventMaker) slot(c *pb.Commit, slot uint64, beforeUs int64) {
	for i, op := range c.GetOps() {
		add := func(kind string, data fields) {
			if t.shard >= 0 {
				data["shard"] = t.shard
			}
			t.add("salectl."+kind, slot, i, c.GetTimeUs(), data)
		}
		switch op := op.GetOp().(type) {
		case *pb.Op_Claim:
			t.claim(c, slot, i, op.Claim)
		case *pb.Op_Settle:
			t.settle(c, slot, i, op.Settle)
		case *pb.Op_Generation:
			add("shard.generation", generation(op.Generation.GetNumber(), op.Generation.GetSettings()))
		case *pb.Op_Entries:
			add("shard.entries_closed", fields{"count": op.Entries.GetCount(), "root": hexOf(op.Entries.GetRoot())})
		case *pb.Op_Seal:
			add("shard.sealed", fields{})
		case *pb.Op_Own:
			if c.GetTimeUs() < beforeUs {
				add("shard.clock_set_back", fields{"before": ledger.FormatTime(beforeUs)})
			}
		case *pb.Op_Planned:
			g := generation(op.Planned.GetGeneration(), op.Planned.GetSettings())
			g["run"], g["who"], g["planDigest"] = op.Planned.GetRun(), op.Planned.GetWho(), hexOf(op.Planned.GetPlanDigest())
			add("sale.planned", g)
		case *pb.Op_Applied:
			add("sale.applied", fields{"generation": op.Applied.GetGeneration()})
		case *pb.Op_EntriesClosed:
			count := int64(0)
			for _, n := range op.EntriesClosed.GetCounts() {
				count += n
			}
			add("sale.entries_closed", fields{"count": count, "root": hexOf(op.EntriesClosed.GetRoot())})
		case *pb.Op_Drawn:
			d := fields{"link": hexOf(op.Drawn.GetLink()), "ranks": op.Drawn.GetRanks()}
			if beacon := op.Drawn.GetBeacon(); len(beacon) > 0 {
				d["beacon"] = hexOf(beacon)
			}
			add("sale.drawn", d)
		case *pb.Op_Ranked: // of consecutive ranks
			claims := []string{}
			for n, shard := range op.Ranked.GetShards() {
				claims = append(claims, claimID(int(shard), op.Ranked.GetSlots()[n], int(op.Ranked.GetIndexes()[n])))
			}
			add("sale.ranked", fields{"first": op.Ranked.GetFirst(), "claims": claims})
		case *pb.Op_Sealed:
			roots := []string{} // hashes of the last slots, as slots by shard
			for _, root := range op.Sealed.GetRoots() {
				roots = append(roots, hexOf(root))
			}
			add("sale.sealed", fields{
				"roots": roots, "slots": op.Sealed.GetSlots(), "claims": op.Sealed.GetClaims(),
				"unitsSold": op.Sealed.GetUnitsSold(), "exportDigest": hexOf(op.Sealed.GetExportDigest()),
			})
		case *pb.Op_Destroyed:
			add("sale.destroyed", fields{})
		}
	}
}

var hexOf = hex.EncodeToString

// generation returns the data of an event about a generation: its number and settings.
func generation(number uint64, s *pb.Settings) fields {
	g := fields{"generation": number, "phase": ledger.PhaseName(s.GetPhase()), "perUserLimit": s.GetPerUserLimit()}
	for name, us := range map[string]int64{"opensAt": s.GetOpensAtUs(), "closesAt": s.GetClosesAtUs()} {
		if us != 0 {
			g[name] = ledger.FormatTime(us)
		}
	}
	return g
}

func (t *eventMaker) claim(c *pb.Commit, slot uint64, i int, op *pb.Claim) {
	d := &Claim{
		Claim: claimID(t.shard, slot, i), Shard: t.shard, State: "sold", User: op.GetUser(), Units: op.GetUnits(), Requested: int64(op.GetRequested()),
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
	if t.amounts != nil {
		d.Currency = t.currency
		for _, unit := range d.Units {
			d.Amounts = append(d.Amounts, t.amounts(unit))
		}
	}
	if key := op.GetKey(); utf8.Valid(key) {
		d.Key = string(key)
	} else {
		d.KeyBase64 = key
	}
	t.add(typeClaim+d.State, slot, i, c.GetTimeUs(), d).Subject = d.Claim
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
	kind := "settled" // by a newer program
	if change, known := changes[op.GetHow()]; known {
		kind, d.State = change.kind, change.state
	}
	if op.GetHow() == pb.Settle_AWARD && op.GetHeldUntilUs() != 0 {
		d.State = "held"
	}
	t.add(typeClaim+kind, slot, i, c.GetTimeUs(), d).Subject = d.Claim
}

// changes are the changes of claims, and the new states.
var changes = map[pb.Settle_How]struct{ kind, state string }{
	pb.Settle_CONFIRM:    {"confirmed", "sold"},
	pb.Settle_CANCEL:     {"cancelled", "cancelled"},
	pb.Settle_EXPIRE:     {"expired", "expired"},
	pb.Settle_EXTEND:     {"extended", "held"},
	pb.Settle_REFUND:     {"refunded", "refunded"},
	pb.Settle_RESELL:     {"resold", "sold"},
	pb.Settle_REFUND_DUE: {kind: "refund_due"},
	pb.Settle_RETURNED:   {kind: "returned"},
	pb.Settle_AWARD:      {"awarded", "sold"},
}

// commit appends the stored bytes of a slot if Config.Commits is set. addSaleEvents passes no bytes for a
// slot with a plan, which contains the seed of a red packet and the addresses of the servers.
func (t *eventMaker) commit(log string, slot uint64, hash ledger.Hash, timeUs int64, entry []byte) {
	if t.commits {
		t.add(typeCommit, slot, -1, timeUs, &Commit{log, t.number(), slot, hash, entry})
	}
}
