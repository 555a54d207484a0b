package planner

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// The options of a sale have several forms here: the settings that shards receive, the
// attributes that plans show, and the settings in force that a status shows. This file
// combines the options; what shards receive is in generation.go.

// Attributes describe a resource before or after an action. A sale, a shard and a node have
// different ones, a table has none. Those that do not apply are omitted.
type Attributes struct {
	spec.About
	Run           int64         `json:"run,omitempty"`
	Phase         string        `json:"phase,omitempty"`         // phase of the sale
	DeclaredPhase string        `json:"declaredPhase,omitempty"` // spec.phase
	Stock         int64         `json:"stock,omitempty"`
	LockCount     int           `json:"lockCount,omitempty"`
	PerUserLimit  int64         `json:"perUserLimit,omitempty"`
	Partial       bool          `json:"partial,omitempty"`
	OpensAt       string        `json:"opensAt,omitempty"`  // RFC 3339, UTC
	ClosesAt      string        `json:"closesAt,omitempty"` // RFC 3339, UTC
	LockTTL       spec.Duration `json:"lockTtlMs,omitempty"`
	// Ends is what a destroy ends; nil for other plans and if nothing is left.
	Ends *Ends `json:"ends,omitempty"`
	// Payment is nil if claims are sold at once.
	Payment *spec.Payment `json:"payment,omitempty"`
	// UnitSource is the source of the units; nil if they are numbers, or packets of money.
	UnitSource *UnitSource `json:"unitSource,omitempty"`
	// Draw describes the draw; nil if the sale is no draw.
	Draw *spec.Draw `json:"draw,omitempty"`
	// Who may claim.
	Who
	// Location of the sale, and credentials for its servers.
	spec.Settings

	Generation uint64 `json:"generation,omitempty"`
	Limit      *int64 `json:"limit,omitempty"` // units of the shard, sold or not
	Units      string `json:"units,omitempty"` // new unit numbers

	Marker string `json:"marker,omitempty"` // of a lock node: good, missing, abstaining, unknown

	// Of a sale whose engine is redis.
	Engine    string `json:"engine,omitempty"`
	Ack       string `json:"ack,omitempty"`
	Backlog   int64  `json:"backlog,omitempty"`
	RedPacket string `json:"redPacket,omitempty"` // total, currency, split and least amount
	List      string `json:"list,omitempty"`      // of a shard: on, off, unknown
	Node      string `json:"node,omitempty"`      // node of the list
}

// list returns every attribute. Absent ones are "", or omitted if their number is variable.
func (a *Attributes) list() []Field {
	if a == nil {
		a = new(Attributes)
	}
	number := func(n int64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}
	limit, ttl, partial := "", "", ""
	if a.Limit != nil {
		limit = strconv.FormatInt(*a.Limit, 10)
	}
	if a.LockTTL != 0 {
		ttl = strconv.FormatFloat(time.Duration(a.LockTTL).Seconds(), 'f', -1, 64) + "s"
	}
	if a.Partial {
		partial = "true"
	}
	fields := []Field{{Name: "run", After: number(a.Run)}}
	a.About.Each(func(key, text string) { fields = append(fields, Field{Name: key, After: text}) })
	fields = append(fields, []Field{
		{Name: "phase", After: a.Phase}, {Name: "spec.phase", After: a.DeclaredPhase},
		{Name: "stock", After: number(a.Stock)}, {Name: "lockCount", After: number(int64(a.LockCount))},
		{Name: "perUserLimit", After: number(a.PerUserLimit)}, {Name: "partial", After: partial},
		{Name: "opensAt", After: a.OpensAt}, {Name: "closesAt", After: a.ClosesAt},
		{Name: "lock.ttl", After: ttl},
	}...)
	fields = append(fields, a.Ends.Fields()...)
	fields = append(fields, a.UnitSource.list()...)
	fields = append(fields, options("payment", a.Payment)...)
	fields = append(fields, a.Who.list()...)
	fields = append(fields, options("draw", a.Draw)...)
	fields = append(fields, options("", &a.Settings)...)
	return append(fields, []Field{
		{Name: "generation", After: number(int64(a.Generation))},
		{Name: "limit", After: limit}, {Name: "units", After: a.Units}, {Name: "marker", After: a.Marker},
		{Name: "engine", After: a.Engine}, {Name: "ack", After: a.Ack}, {Name: "backlog", After: number(a.Backlog)},
		{Name: "redPacket", After: a.RedPacket}, {Name: "list", After: a.List}, {Name: "node", After: a.Node},
	}...)
}

// options returns every option of a block of a sale, absent ones as "".
func options[Block any](path string, of *Block) (fields []Field) {
	spec.Each(path, of, func(name, text string) { fields = append(fields, Field{Name: name, After: text}) })
	return fields
}

// saleAttributes returns the attributes of a declared sale.
func saleAttributes(s spec.Sale, stock int64, phase string, generation uint64) *Attributes {
	a := &Attributes{
		Run: s.Run, About: s.About, Phase: phase, DeclaredPhase: string(s.Phase), Stock: stock, LockCount: s.LockCount, PerUserLimit: s.PerUserLimit, Partial: s.Partial,
		OpensAt: TimeText(s.OpensAt), ClosesAt: TimeText(s.ClosesAt), LockTTL: s.LockTTL,
		Settings: s.Settings(), Generation: generation, Who: whoOf(s), Payment: s.Payment,
	}
	a.UnitSource, a.Draw = unitSourceOf(s), s.Draw
	if s.Engine == spec.EngineRedis {
		a.Engine, a.Ack, a.Backlog = string(s.Engine), string(s.Ack), s.Backlog
		if s.RedPacket != nil {
			a.RedPacket = packetText(s)
		}
	}
	return a
}

// DeclaredAttributes returns the attributes that a generation declares.
func DeclaredAttributes(p *pb.Planned) (*Attributes, error) {
	sale, err := Declared(p)
	if err != nil {
		return nil, err
	}
	a := saleAttributes(sale, sale.Stock, ledger.PhaseName(p.GetSettings().GetPhase()), 0)
	a.UnitSource = a.UnitSource.with(p.GetUnits())
	return a, nil
}

// inForce replaces declared settings by those in force. They differ if a fault has stored a
// generation with other settings than it declares.
func (a *Attributes) inForce(s *pb.Settings, declared spec.Sale) {
	a.PerUserLimit, a.Partial = s.GetPerUserLimit(), s.GetPartial()
	a.OpensAt, a.ClosesAt = ledger.FormatTime(s.GetOpensAtUs()), ledger.FormatTime(s.GetClosesAtUs())
	a.Payment = withService(paymentShown(s.GetPayment()), declared.Payment)
	a.RuleSet = hex.EncodeToString(s.GetRules())
}

// InForce is the part of a status that shows the settings in force.
type InForce struct {
	OpensAt  string        `json:"opensAt,omitempty"`  // RFC 3339, UTC
	ClosesAt string        `json:"closesAt,omitempty"` // RFC 3339, UTC
	Payment  *spec.Payment `json:"payment,omitempty"`  // nil: claims are sold at once
	Rules    *RulesStatus  `json:"rules,omitempty"`    // nil: every user may claim
}

// NewInForce returns the part of a status for settings and the declaration that they belong to.
func NewInForce(s *pb.Settings, declared spec.Sale) InForce {
	return InForce{
		OpensAt: ledger.FormatTime(s.GetOpensAtUs()), ClosesAt: ledger.FormatTime(s.GetClosesAtUs()),
		Payment: paymentShown(s.GetPayment()), Rules: rulesShown(s.GetRules(), declared),
	}
}

// packetText describes a red packet for people.
func packetText(s spec.Sale) string {
	r := s.RedPacket
	if r == nil {
		return "numbers"
	}
	return fmt.Sprintf("%s %s, split %s, min %s", r.Format(r.Total), r.Currency, r.Split, r.Format(r.Min))
}

// UnitSource describes in plans the source of a sale's payloads.
type UnitSource struct {
	From   string   `json:"from"` // file, range
	Ranges []string `json:"ranges,omitempty"`
	Column string   `json:"column,omitempty"` // column of the file that names a unit; "": the first
	Secret bool     `json:"secret,omitempty"` // encrypted in the ledger, and sent only to buyers
	Choose bool     `json:"choose,omitempty"` // buyers may choose units by name
	Digest string   `json:"digest,omitempty"` // digest of all payloads, in hex; unknown before apply
}

func unitSourceOf(s spec.Sale) *UnitSource {
	u := s.Units
	if u == nil {
		return nil
	}
	g := &UnitSource{From: "file", Ranges: u.Ranges, Column: u.Column, Secret: u.Secret, Choose: u.Choose}
	if len(u.Ranges) > 0 {
		g.From = "range"
	}
	return g
}

// with returns g with the digest of its units.
func (g *UnitSource) with(digest []byte) *UnitSource {
	if g != nil {
		g.Digest = hex.EncodeToString(digest)
	}
	return g
}

// list returns the attributes of a UnitSource.
func (g *UnitSource) list() []Field {
	if g == nil {
		g = new(UnitSource)
	}
	word := func(is bool) string {
		if is {
			return "true"
		}
		return ""
	}
	return []Field{
		{Name: "units.from", After: g.From}, {Name: "units.range", After: strings.Join(g.Ranges, ", ")},
		{Name: "units.column", After: g.Column}, {Name: "units.secret", After: word(g.Secret)},
		{Name: "units.choose", After: word(g.Choose)}, {Name: "units.digest", After: g.Digest[:min(len(g.Digest), shortSet)]},
	}
}
