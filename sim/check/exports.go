package check

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	pb "salectl/backends/ledger/ledgerpb"
)

// The lines of an export.
type (
	exportHeader struct {
		Format int      `json:"format"`
		Kind   string   `json:"kind"`
		Sale   string   `json:"sale"`
		UID    string   `json:"uid"`
		Roots  []string `json:"roots"`
		Counts counts   `json:"counts"`

		SaleLog  *logPart `json:"saleLog"`
		UnitsLog *logPart `json:"unitsLog,omitempty"`

		Packets *packetsPart `json:"packets,omitempty"`
		Draw    *drawPart    `json:"draw,omitempty"`
	}
	logPart struct {
		First uint64 `json:"first"`
		Slots int    `json:"slots"`
		Root  string `json:"root"`
	}
	packetsPart struct {
		Currency   string `json:"currency"`
		Total      string `json:"total"`
		Packets    int64  `json:"packets"`
		Split      string `json:"split"`
		Min        string `json:"min"`
		Commitment string `json:"commitment"`
		Granted    string `json:"granted"`
		Refund     string `json:"refund"`
		Seed       []byte `json:"seed,omitempty"` // once no packet can be given any more
	}
	counts struct {
		Shards    int    `json:"shards"`
		Slots     uint64 `json:"slots"`
		Claims    int64  `json:"claims"`
		Sold      int64  `json:"sold"`
		Held      int64  `json:"held"`
		Available int64  `json:"available"`
		InFlight  int64  `json:"inFlight"`
		outcomes
	}
	claimLine struct {
		Claim      string              `json:"claim"`
		Sale       string              `json:"sale"`
		User       string              `json:"user"`
		Units      []int64             `json:"units"`
		Asked      int64               `json:"requested,omitempty"`
		Amounts    []string            `json:"amounts,omitempty"`
		Payloads   []map[string]string `json:"payloads,omitempty"`
		State      string              `json:"state"`
		At         string              `json:"at"`
		Key        string              `json:"key,omitempty"`
		KeyBase64  []byte              `json:"keyBase64,omitempty"`
		Label      string              `json:"label,omitempty"`
		Rank       int64               `json:"rank,omitempty"`
		Rules      string              `json:"rules,omitempty"`
		Attributes string              `json:"attributes,omitempty"`
		HeldUntil  string              `json:"heldUntil,omitempty"`
		SettledAt  string              `json:"settledAt,omitempty"`
		Who        string              `json:"who,omitempty"`
		Why        string              `json:"why,omitempty"`
		Payment    string              `json:"payment,omitempty"`
		Retired    bool                `json:"retired,omitempty"`
		RefundDue  []string            `json:"refundDue,omitempty"`
		Returned   []paidBack          `json:"returned,omitempty"`
	}
	commitLine struct {
		Shard  int    `json:"shard"`
		Slot   uint64 `json:"slot"`
		Commit []byte `json:"commit"`
	}
	otherLine struct {
		Log    string `json:"log"`
		Slot   uint64 `json:"slot"`
		Commit []byte `json:"commit"`
		Hash   string `json:"hash,omitempty"` // of the slot, where the seed of a packet is left out
	}
)

// exports compares every export with what the ledger's would be.
func exports(e *evidence, bad fault) {
	for i, x := range e.h.Exports {
		first, _, _ := bytes.Cut(x.Bytes, []byte("\n"))
		var header exportHeader
		if err := json.Unmarshal(first, &header); err != nil {
			bad("export %d has no header: %v", i, err)
		} else if n := slices.IndexFunc(e.runs, func(r *run) bool { return r.uid == header.UID }); n < 0 {
			bad("export %d is of run %q, which there is not", i, header.UID)
		} else if r := e.runs[n]; header.Draw.lacks(r) && !x.has(r.sealed.GetExportDigest()) {
			continue // the destroy that wrote it did not go on: the run was drawn further than it knew
		} else if got, want := differing(x.Bytes, e.export(e.runs[n])); len(got)+len(want) > 0 {
			bad("export %d goes on with %q, the ledger has %q", i, got, want)
		}
	}
}

// differing returns two texts without the lines in which they begin alike.
func differing(a, b []byte) ([]byte, []byte) {
	x, y := bytes.SplitAfter(a, []byte("\n")), bytes.SplitAfter(b, []byte("\n"))
	for len(x) > 0 && len(y) > 0 && bytes.Equal(x[0], y[0]) {
		x, y = x[1:], y[1:]
	}
	return bytes.Join(x, nil), bytes.Join(y, nil)
}

// export writes what the export of a run must be.
func (e *evidence) export(r *run) []byte {
	header := exportHeader{Format: 1, Kind: "export", Sale: e.h.Sale, UID: r.uid, Counts: counts{Shards: len(r.shards)}}
	var claims, commits bytes.Buffer
	lines := json.NewEncoder(&commits)
	for i, l := range r.shards {
		for _, s := range l.slots {
			lines.Encode(commitLine{i, s.n, s.bytes})
		}
		last := slot{hash: [32]byte(hashOf([]byte(l.name)))}
		if n := len(l.slots); n > 0 {
			last = *l.slots[n-1]
		}
		header.Roots = append(header.Roots, hex.EncodeToString(last.hash[:]))
		header.Counts.Slots += uint64(len(l.slots))
		header.Counts.Sold += last.after.sold
		header.Counts.Held += last.after.held
		header.Counts.Available += last.after.available
		header.Counts.InFlight += last.after.inFlight
		header.Counts.add(last.after.outcomes)
	}
	logs := func(name string, slots []*slot) *logPart {
		if len(slots) == 0 {
			return nil
		}
		for _, s := range slots {
			lines.Encode(r.otherLine(name, s))
		}
		return &logPart{slots[0].n, len(slots), hex.EncodeToString(slots[len(slots)-1].hash[:])}
	}
	header.SaleLog, header.UnitsLog = logs("sale", e.plans(r)), logs("units", e.units(r))
	granted, names := int64(0), e.names(r)
	lines = json.NewEncoder(&claims)
	lines.SetEscapeHTML(false)
	for _, l := range r.shards {
		for _, c := range e.claims {
			if c.at.log != l {
				continue
			}
			line := claimLine{
				Claim: c.id(), Sale: e.h.Sale, User: c.user, Units: append([]int64{}, c.units...), Asked: c.requested, State: c.state,
				At: timeText(c.timeUs()), Who: c.who, Why: c.why, Payment: c.payment, Retired: c.retired,
			}
			for _, d := range c.debts {
				if line.RefundDue = append(line.RefundDue, d.payment); d.returned != nil {
					line.Returned = append(line.Returned, *d.returned)
				}
			}
			if len(c.attributes) > 0 {
				line.Rules, line.Attributes = hex.EncodeToString(c.settings.GetRules()), hex.EncodeToString(c.attributes)
			}
			if c.deadline != 0 {
				line.HeldUntil = timeText(c.deadline)
			}
			if c.settled != 0 {
				line.SettledAt = timeText(c.settled)
			}
			for _, unit := range c.units {
				if names != nil && (!e.secret() || c.state == "sold" || c.state == "refunded") {
					line.Payloads = append(line.Payloads, e.payload(names[unit]))
				}
				if r.packets != nil {
					line.Amounts = append(line.Amounts, r.packets.Format(r.packets.amount(unit)))
					if has(c.state) {
						granted += r.packets.amount(unit)
					}
				}
			}
			if utf8.ValidString(c.key) {
				line.Key = c.key
			} else {
				line.KeyBase64 = []byte(c.key)
			}
			if c.entry {
				line.Label, line.Rank = hex.EncodeToString(r.label(c)), r.rankOf(c)
			}
			lines.Encode(line)
			header.Counts.Claims++
		}
	}
	if p := r.packets; p != nil {
		seed := r.planned[0].GetSeed()
		terms := []string{"salectl red packet v1", r.uid, p.Currency, p.Format(p.Total), strconv.FormatInt(r.stock, 10), string(p.Split), p.Format(p.Min), string(seed)}
		committed := sha256.Sum256([]byte(strings.Join(terms, "\n")))
		header.Packets = &packetsPart{
			Currency: p.Currency, Total: p.Format(p.Total), Granted: p.Format(granted), Refund: p.Format(p.Total - granted),
			Split: p.Split, Min: p.Format(p.Min), Packets: r.stock, Commitment: hex.EncodeToString(committed[:]),
		}
		if r.over() {
			header.Packets.Seed = seed
		}
	}
	header.Draw = e.drawPart(r)
	first, _ := json.Marshal(header)
	return bytes.Join([][]byte{first, append(claims.Bytes(), commits.Bytes()...)}, []byte("\n"))
}

// over reports whether no shard gives anything to anybody any more.
func (r *run) over() bool {
	return !slices.ContainsFunc(r.shards, func(l *log) bool {
		n := len(l.slots)
		return n == 0 || !l.slots[n-1].after.sealed && l.slots[n-1].after.settings.GetPhase() != phaseClosed
	})
}

// otherLine is the line of a slot of another log than a shard's. While packets may still be given
// it does not have the seed that they follow from.
func (r *run) otherLine(name string, s *slot) otherLine {
	line := otherLine{Log: name, Slot: s.n, Commit: s.bytes}
	if r.packets == nil || r.over() {
		return line
	}
	without := proto.CloneOf(s.commit)
	for _, op := range without.GetOps() {
		if len(op.GetPlanned().GetSeed()) > 0 {
			op.GetPlanned().Seed = nil
			line.Hash = hex.EncodeToString(s.hash[:])
		}
	}
	if line.Hash != "" {
		line.Commit, _ = proto.Marshal(without)
	}
	return line
}

// plans are the slots of the sale's own log that an export of a run has: from its first plan to
// the last one that a shard has taken, or to the last step of its draw.
func (e *evidence) plans(r *run) (slots []*slot) {
	needed := 0
	for _, s := range e.sale.slots {
		if s.n < r.planned[0].at.n || r.sealedAt != nil && s.n >= r.sealedAt.n {
			continue
		}
		if slices.ContainsFunc(s.commit.GetOps(), func(op *pb.Op) bool { return op.GetPlanned() != nil && op.GetPlanned().GetUid() != r.uid }) {
			break // the next run
		}
		slots = append(slots, s)
		for _, op := range s.commit.GetOps() {
			p := op.GetPlanned()
			if p != nil && p.GetGeneration() <= max(r.taken(), 1) || op.GetEntriesClosed() != nil || op.GetDrawn() != nil || op.GetRanked() != nil {
				needed = len(slots)
			}
		}
	}
	return slots[:needed]
}

// taken is the newest generation that a shard of the run has.
func (r *run) taken() (newest uint64) {
	for _, l := range r.shards {
		if n := len(l.slots); n > 0 {
			newest = max(newest, l.slots[n-1].after.generation)
		}
	}
	return newest
}

// units are the slots of the log of a run's units that an export has: to the last one that says
// of a unit what it is before any other has said it, by a plan that has added units.
func (e *evidence) units(r *run) []*slot {
	l := e.payloadLogs[payloadLog(r.uid)]
	if l == nil {
		return nil
	}
	next, ends := int64(1), make(map[string]int64) // by plan: the unit behind the last that is stored
	for _, p := range r.planned {
		if p.GetGeneration() <= max(r.taken(), 1) && p.GetNextUnit() > next {
			next, ends[string(p.GetPlanDigest())] = p.GetNextUnit(), 0
		}
	}
	needed := 0
	for i, s := range l.slots {
		for _, op := range s.commit.GetOps() {
			x := op.GetPayload()
			if end, adds := ends[string(x.GetPlan())]; adds && x.GetFirst()+x.GetCount() > end {
				ends[string(x.GetPlan())], needed = x.GetFirst()+x.GetCount(), i+1
			}
		}
	}
	return l.slots[:needed]
}

func timeText(us int64) string { return time.UnixMicro(us).UTC().Format(time.RFC3339Nano) }
