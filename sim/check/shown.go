package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	pb "salectl/backends/ledger/ledgerpb"
)

// Plan is a plan as it is shown, which a command has made.
type Plan struct {
	Place
	Op   int    // the command
	JSON []byte // as a saved plan has it, on one line or more
	File *File  // that it was made of; nil: it is none of a file
}

// File is what a sale's file declared when a plan was made of it.
type File struct {
	Stock, PerUserLimit int64
	Partial             bool
	Phase               string
	Opens, Closes       time.Time
	Hold, Grace, Extend time.Duration // Hold is 0 if claims are sold at once
	Late                string
	Unpaid              int64    // claims of a user that may be cancelled or expire
	Units               []string // ranges of their names; nil: they are numbers
	Rules               []string // what they require
	Sources             Sources
}

// shownPlan is a plan's JSON.
type shownPlan struct {
	Kind, UID, Phase string
	Generation, Slot uint64
	Actions          []shownAction
	Summary          struct{ Create, Update, Delete int }
	Payload          []byte
	Digest           string
	Warnings         []string

	at      *Plan
	op      *operation
	r       *run
	before  *planned // the newest generation that it has read; nil: none of a live run
	applied uint64
	planned *pb.Planned // what it is to append; nil: nothing
}

type shownAction struct {
	Address, Action, ActionReason string
	Before, After                 *shownAttributes
}

type shownAttributes struct {
	Phase, Units, RuleSet string
	Generation            uint64
	Limit                 *int64
	Sale                  shownDeclaration
}

type shownDeclaration struct {
	Phase, OpensAt, ClosesAt       string
	Stock, PerUserLimit, LockTTLMs int64
	LockCount                      int
	Partial                        bool
	Payment                        *struct {
		HoldForMs, GraceMs, ExtendByMs int64
		Late                           string
		UnpaidPerUser                  int64
	}
}

// has reports whether a limit is shown.
func (s *shownAttributes) has(limit int64) bool {
	return s != nil && s.Limit != nil && *s.Limit == limit
}

// shown judges plans: each shows what it is to append to the sale's log, and what the shards are
// behind, and nothing else; what a command appends is what its plan has shown.
func shown(e *evidence, bad fault) {
	byDigest := make(map[string]*shownPlan)
	for i := range e.h.Plans {
		p := &shownPlan{at: &e.h.Plans[i]}
		if err := p.read(e); err != nil {
			bad("the plan of operation %d cannot be read: %v", p.at.Op, err)
			continue
		}
		byDigest[p.Digest] = p
		if p.Kind == "apply" || p.Kind == "phase" {
			p.judge(e, bad)
		}
	}
	if len(e.h.Plans) == 0 {
		return
	}
	for _, r := range e.runs {
		for _, d := range r.planned {
			switch p := byDigest[fmt.Sprintf("%x", d.GetPlanDigest())]; {
			case p == nil:
				bad("%v is what no plan has shown", d.at)
			case p.planned == nil || d.at.n != p.Slot || !proto.Equal(p.planned, asShown(d.Planned)):
				bad("%v is otherwise than the plan of operation %d has shown", d.at, p.at.Op)
			}
		}
	}
}

// asShown is a generation without what only the command that appends it adds.
func asShown(p *pb.Planned) *pb.Planned {
	p = proto.CloneOf(p)
	p.PlanDigest, p.Who, p.Seed = nil, "", nil
	if p.Draw != nil {
		p.Draw = nil
	}
	return p
}

// read takes a plan in, and what the log of the sale was when it was made.
func (p *shownPlan) read(e *evidence) error {
	if err := json.Unmarshal(p.at.JSON, p); err != nil {
		return err
	}
	p.op = e.ops[p.at.Op]
	if len(p.Payload) > 0 {
		p.planned = new(pb.Planned)
		if err := proto.Unmarshal(p.Payload, p.planned); err != nil {
			return err
		}
	}
	for _, r := range e.runs {
		if r.planned[0].at.n >= p.Slot {
			break
		}
		p.r, p.before, p.applied = r, nil, 0
		if r.sealedAt != nil && r.sealedAt.n < p.Slot {
			continue
		}
		for i := range r.planned {
			if r.planned[i].at.n < p.Slot {
				p.before = &r.planned[i]
			}
		}
		for _, c := range r.completed {
			if c.at.n < p.Slot {
				p.applied = c.generation
			}
		}
	}
	return nil
}

func (p *shownPlan) judge(e *evidence, bad fault) {
	wrong := func(format string, args ...any) { bad("%v %s", p, fmt.Sprintf(format, args...)) }
	var summary [3]int
	seen := make(map[string]shownAction)
	for _, a := range p.Actions {
		kind, _, _ := strings.Cut(a.Address, "/")
		if _, twice := seen[a.Address]; twice || !strings.Contains("sale shard node list", kind) {
			wrong("shows %s twice, or what no sale has", a.Address)
		}
		seen[a.Address] = a
		summary[strings.Index("create update delete", a.Action)/7]++
	}
	if s := p.Summary; summary != [3]int{s.Create, s.Update, s.Delete} {
		wrong("counts %+v, and has %v", s, summary)
	}
	p.judgeSale(e, seen["sale/"+e.h.Sale], wrong)
	for i := range p.shards() {
		if a := seen["shard/"+strconv.Itoa(i)]; !p.shardFits(i, a) {
			wrong("shows of shard %d %q from %s, which it never was when the plan was made", i, a.ActionReason, a.limits())
		}
	}
	p.judgeFile(wrong)
	if p.op.invoked.Command == "plan" && p.converged() {
		for _, a := range p.Actions {
			if !strings.HasPrefix(a.Address, "list/") && !p.afterRestart(e, a) { // a list that is taken over is off for a while
				wrong("shows %s for %q, and there is nothing to do", a.Address, a.ActionReason)
			}
		}
	}
}

// afterRestart reports whether an action restores the marker of a lock node that was restarted.
func (p *shownPlan) afterRestart(e *evidence, a shownAction) bool {
	return a.ActionReason == "marker_missing" && slices.ContainsFunc(e.h.Restarts, func(x Restart) bool {
		return "node/"+x.Node == a.Address && x.Seq < p.at.Seq
	})
}

// converged reports whether the run was what the file declares, while the plan was made.
func (p *shownPlan) converged() bool {
	if p.fresh() || p.at.File == nil || p.at.File.differs(p.before.Planned) != "" || p.applied < p.before.GetGeneration() {
		return false
	}
	for _, at := range []uint64{p.op.invoked.Seq, p.at.Seq} {
		var limits int64
		for _, l := range p.r.shards {
			if last := l.at(at); last != nil && last.after.generation == p.before.GetGeneration() {
				limits += last.after.limit
			}
		}
		if limits != p.at.File.Stock {
			return false
		}
	}
	return true
}

func (a shownAction) limits() string {
	text := func(s *shownAttributes) string {
		if s == nil || s.Limit == nil {
			return "none"
		}
		return strconv.FormatInt(*s.Limit, 10)
	}
	return text(a.Before) + " to " + text(a.After)
}

func (p *shownPlan) String() string {
	return fmt.Sprintf("the plan of operation %d at slot %d", p.at.Op, p.Slot)
}

// shards is how many the run has that is planned.
func (p *shownPlan) shards() int {
	if p.planned != nil {
		return len(p.planned.GetShards())
	}
	if p.before == nil {
		return 0
	}
	return len(p.before.GetShards())
}

// fresh reports whether the plan begins a run.
func (p *shownPlan) fresh() bool { return p.before == nil }

// change is what the plan does to the units of a shard.
func (p *shownPlan) change(shard int) *pb.ShardChange {
	if p.planned == nil {
		return nil
	}
	return p.planned.GetShards()[shard]
}

func count(ranges []*pb.Range) (n int64) {
	for _, r := range ranges {
		n += r.GetCount()
	}
	return n
}

// delta is by how many units a change raises a limit, if the shard has all that are to go.
func delta(c *pb.ShardChange) int64 {
	return count(c.GetAdd()) + count(c.GetRestore()) - c.GetRemove() - count(c.GetDrop())
}

// judgeSale judges what is shown of the sale itself: the settings before and after, and why.
func (p *shownPlan) judgeSale(e *evidence, a shownAction, wrong fault) {
	want, why := "", ""
	var was, is *pb.Planned
	switch {
	case p.planned != nil && p.fresh():
		want, is = "create", p.planned
		if why = "new"; len(e.runs) > 0 && p.planned.GetRun() > e.runs[0].number {
			why = "new_run"
		}
	case p.planned != nil:
		want, why, was, is = "update", p.why(), p.before.Planned, p.planned
	case !p.fresh() && p.applied < p.before.GetGeneration():
		want, why, was, is = "update", "generation_pending", p.before.Planned, p.before.Planned
	}
	if a.Action != want || a.ActionReason != why {
		wrong("shows of the sale %q for %q, and is to show %q for %q", a.Action, a.ActionReason, want, why)
		return
	}
	p.judgeAttributes("before", a.Before, was, wrong)
	p.judgeAttributes("after", a.After, is, wrong)
	if a.Before != nil && a.After != nil {
		var units int64
		for i := range p.shards() {
			units += delta(p.change(i))
		}
		if p.Kind == "apply" && a.Before.Sale.Stock+units != a.After.Sale.Stock {
			wrong("shows a stock of %d, then %d, and changes it by %d", a.Before.Sale.Stock, a.After.Sale.Stock, units)
		}
	}
}

// why is the reason for a new generation of a live run.
func (p *shownPlan) why() string {
	if p.Kind == "phase" {
		return "requested"
	}
	if !bytes.Equal(p.before.GetSpec(), p.planned.GetSpec()) || !bytes.Equal(p.before.GetUnits(), p.planned.GetUnits()) {
		for g := range p.before.GetGeneration() - 1 {
			if bytes.Equal(p.r.planned[g].GetSpec(), p.planned.GetSpec()) {
				return "other_generation"
			}
		}
		return "declaration_changed"
	}
	if p.before.GetSettings().GetPhase() != p.planned.GetSettings().GetPhase() {
		return "phase_set_by_hand"
	}
	for i := range p.shards() {
		if c := p.change(i); len(c.GetAdd())+len(c.GetDrop())+len(c.GetRestore()) > 0 || c.GetRemove() > 0 {
			return "removal_fell_short"
		}
	}
	return "nothing"
}

// judgeAttributes holds what is shown of a generation against its settings and declaration.
func (p *shownPlan) judgeAttributes(side string, a *shownAttributes, of *pb.Planned, wrong fault) {
	if a == nil || of == nil {
		if (a == nil) != (of == nil) {
			wrong("shows of the sale %s it what is not there, or the other way round", side)
		}
		return
	}
	var declaration struct {
		Stock, LockTTLMs int64
		LockCount        int
		Phase            string
	}
	if json.Unmarshal(of.GetSpec(), &declaration) != nil {
		return // which others report
	}
	s := of.GetSettings()
	differ := func(what string, shown, is any) {
		if shown != is {
			wrong("shows %s %s it as %v, and generation %d has %v", what, side, shown, of.GetGeneration(), is)
		}
	}
	differ("generation", a.Generation, of.GetGeneration())
	differ("perUserLimit", a.Sale.PerUserLimit, s.GetPerUserLimit())
	differ("partial", a.Sale.Partial, s.GetPartial())
	differ("opensAt", a.Sale.OpensAt, shownTime(s.GetOpensAtUs()))
	differ("closesAt", a.Sale.ClosesAt, shownTime(s.GetClosesAtUs()))
	differ("ruleSet", a.RuleSet, fmt.Sprintf("%x", s.GetRules()))
	differ("lockTtlMs", a.Sale.LockTTLMs, declaration.LockTTLMs)
	differ("lockCount", a.Sale.LockCount, declaration.LockCount)
	differ("spec.phase", a.Sale.Phase, declaration.Phase)
	if side == "after" {
		differ("stock", a.Sale.Stock, declaration.Stock)
	}
	if p.applied > 0 || side == "after" && p.planned != nil {
		phase := strings.ToLower(s.GetPhase().String())
		if side == "after" && p.applied == 0 && !p.fresh() {
			phase = a.Phase // of a sale that is planned and nothing more
		}
		differ("phase", a.Phase, phase)
	}
	paid := s.GetPayment()
	if differ("payment", a.Sale.Payment != nil, paid != nil); paid != nil && a.Sale.Payment != nil {
		differ("holdFor", a.Sale.Payment.HoldForMs*1000, paid.GetHoldForUs())
		differ("grace", a.Sale.Payment.GraceMs*1000, paid.GetGraceUs())
		differ("extendBy", a.Sale.Payment.ExtendByMs*1000, paid.GetExtendByUs())
		differ("late", a.Sale.Payment.Late, strings.ToLower(paid.GetLate().String()))
		differ("unpaidPerUser", a.Sale.Payment.UnpaidPerUser, paid.GetUnpaidPerUser())
	}
}

func shownTime(us int64) string {
	if us == 0 {
		return ""
	}
	return time.UnixMicro(us).UTC().Format(time.RFC3339Nano)
}

// shardFits reports whether what is shown of a shard is right for it as the plan may have read it: at
// some time before.
func (p *shownPlan) shardFits(shard int, a shownAction) bool {
	change := p.change(shard)
	changes := len(change.GetAdd())+len(change.GetDrop())+len(change.GetRestore()) > 0 || change.GetRemove() > 0
	if p.fresh() {
		return p.planned == nil || a.Action == "create" && a.After.has(delta(change)) && a.After.Units == unitsText(change.GetAdd())
	}
	if slices.ContainsFunc(p.Warnings, func(text string) bool { return strings.HasPrefix(text, fmt.Sprintf("shard/%d cannot be read", shard)) }) {
		return (a.Action != "") == changes
	}
	newest := p.before.GetGeneration()
	matches := func(m moment, has bool) bool {
		pending := m.generation < newest
		if !pending && !changes {
			return a.Action == ""
		}
		added, limit, available := []*pb.Range(nil), m.limit, m.available
		for _, g := range p.r.planned[min(m.generation, newest):newest] {
			c := g.GetShards()[shard]
			come, go_ := count(c.GetAdd())+count(c.GetRestore()), c.GetRemove()+count(c.GetDrop())
			n := come - min(go_, available+come)
			limit, available, added = limit+n, available+n, append(added, c.GetAdd()...)
		}
		added = append(added, change.GetAdd()...)
		reason := "generation_pending"
		if !pending {
			reason = p.why()
		}
		action := "update"
		if !has {
			action = "create"
		}
		return a.Action == action && a.After.has(limit+delta(change)) && (a.Before == nil) == !has && (!has || a.Before.has(m.limit)) &&
			a.After.Units == unitsText(added) && a.ActionReason == reason
	}
	l := p.r.shards[shard]
	if p.applied == 0 && matches(moment{}, false) {
		return true
	}
	oldest := 0 // that a read may show, however long ago it was
	if last := l.at(p.op.invoked.Seq); last != nil {
		oldest = max(0, slices.Index(l.slots, last)-lag)
	}
	for _, s := range l.slots[oldest:] {
		if s.Seq > p.at.Seq {
			break
		}
		if matches(s.after, true) {
			return true
		}
	}
	return false
}

// unitsText names units as people do: 1-20, 101.
func unitsText(ranges []*pb.Range) string {
	var parts []string
	for _, r := range ranges {
		text := strconv.FormatInt(r.GetFirst(), 10)
		if r.GetCount() > 1 {
			text += "-" + strconv.FormatInt(r.GetFirst()+r.GetCount()-1, 10)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// judgeFile holds a plan that is made of a file against it: what it plans, or leaves as it is,
// is what the file declares.
func (p *shownPlan) judgeFile(wrong fault) {
	f, of := p.at.File, p.planned
	if of == nil && p.before != nil {
		of = p.before.Planned
	}
	if f == nil || of == nil {
		return
	}
	if now := of.GetSettings().GetPhase(); now == phaseClosed {
		f.Phase = "" // a closed sale stays so, whatever its file has
	}
	if differs := f.differs(of); differs != "" {
		wrong("was made of a file that declares %s, and generation %d does not", differs, of.GetGeneration())
	}
}

// differs returns in what a generation differs from its file.
func (f *File) differs(p *pb.Planned) string {
	var declaration struct {
		Stock          int64
		Phase          string
		Units          *struct{ Range []string }
		Rules          []struct{ Require string }
		Users, History struct{ HBase struct{ Table string } }
	}
	if json.Unmarshal(p.GetSpec(), &declaration) != nil {
		return "" // which others report
	}
	s := p.GetSettings()
	var units, rules []string
	if declaration.Units != nil {
		units = declaration.Units.Range
	}
	for _, r := range declaration.Rules {
		rules = append(rules, r.Require)
	}
	us := func(t time.Time) int64 {
		if t.IsZero() {
			return 0
		}
		return t.UnixMicro()
	}
	paid := s.GetPayment()
	switch {
	case f.Stock != declaration.Stock:
		return fmt.Sprintf("a stock of %d", f.Stock)
	case f.PerUserLimit != s.GetPerUserLimit():
		return fmt.Sprintf("a limit of %d", f.PerUserLimit)
	case f.Partial != s.GetPartial():
		return fmt.Sprintf("partial: %v", f.Partial)
	case us(f.Opens) != s.GetOpensAtUs() || us(f.Closes) != s.GetClosesAtUs():
		return fmt.Sprintf("the hours %v to %v", f.Opens, f.Closes)
	case f.Phase != "" && (f.Phase != declaration.Phase || f.Phase != strings.ToLower(s.GetPhase().String())):
		return "the phase " + f.Phase
	case f.Hold.Microseconds() != paid.GetHoldForUs() || f.Grace.Microseconds() != paid.GetGraceUs() || f.Extend.Microseconds() != paid.GetExtendByUs() ||
		paid != nil && f.Late != strings.ToLower(paid.GetLate().String()), f.Unpaid != paid.GetUnpaidPerUser():
		return fmt.Sprintf("the payment terms %v, %v, %v, %s, %d", f.Hold, f.Grace, f.Extend, f.Late, f.Unpaid)
	case fmt.Sprint(f.Units) != fmt.Sprint(units):
		return fmt.Sprintf("the units %v", f.Units)
	case fmt.Sprint(f.Rules) != fmt.Sprint(rules):
		return fmt.Sprintf("the rules %v", f.Rules)
	case f.Sources != Sources{declaration.Users.HBase.Table, declaration.History.HBase.Table}:
		return fmt.Sprintf("the tables %v", f.Sources)
	}
	return ""
}
