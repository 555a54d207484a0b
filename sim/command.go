package sim

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/ledger/export"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/planner"
	applying "salectl/planner/apply"
	"salectl/planner/current"
	planmachine "salectl/planner/machine"
	"salectl/sim/check"
	"salectl/spec"
)

// commandMachine is a command as a process: it reads the sale, makes a plan and
// carries that out.
type commandMachine struct {
	*planmachine.Machine // of the reading, then of the execution
	operators            *operators
	terms                applying.Terms
	plans                func(*planner.Actual) (*planner.Plan, error)
	actual               *planner.Actual
	plan                 *planner.Plan // nil: there is none yet
	content              []byte        // of the export that is being made
	err                  error

	op   int         // as the history has it
	file *check.File // that the plan is made of; nil: none
	only bool        // the plan is all that is wanted
}

func newCommandMachine(o *operators, plans func(*planner.Actual) (*planner.Plan, error), t applying.Terms) *commandMachine {
	reading, actual := current.NewReading(current.ReadTerms{Names: t.Names}, saleName)
	return &commandMachine{Machine: reading, operators: o, terms: t, plans: plans, actual: actual}
}

func (m *commandMachine) tick(now clock.Now) { m.Tick(now) }

func (m *commandMachine) next(now clock.Now) (made []calls.Call, wake time.Duration, gone bool) {
	made, wake, gone, err := m.Next(now)
	if gone && err == nil && m.plan == nil {
		if err = m.carryOut(); err == nil && !m.only {
			return m.next(now)
		}
	}
	for i, c := range made {
		if c.Timeout == 0 {
			made[i] = m.exporting(c)
		}
	}
	m.err = err
	return made, wake, gone
}

// carryOut makes the plan of what was read, and begins it.
func (m *commandMachine) carryOut() (err error) {
	if m.plan, err = m.plans(m.actual); err != nil {
		return err
	}
	m.note()
	m.terms.Units, _ = applying.PayloadsOf(m.actual) // a plan that needs unread units is not made
	run, _, err := applying.NewExecution(m.terms, m.plan, m.export)
	if err == nil {
		m.Machine = run
	}
	return err
}

// note takes the plan down as it is shown, and the file that it is made of, in some worlds.
func (m *commandMachine) note() {
	if !m.operators.shows {
		return
	}
	shown, err := json.Marshal(m.plan)
	if err != nil {
		panic(err)
	}
	w := m.operators.w
	w.note("operators", "plan", fmt.Sprint(len(m.plan.Actions), " actions"), shown)
	w.history.Planned(w.now, m.op, shown, m.file)
}

// fileOf is what a sale's file declares, for those who judge.
func fileOf(s spec.Sale) *check.File {
	f := &check.File{Stock: s.Stock, PerUserLimit: s.PerUserLimit, Partial: s.Partial, Phase: string(s.Phase), Opens: s.OpensAt, Closes: s.ClosesAt}
	if p := s.Payment; p != nil {
		f.Hold, f.Grace, f.Extend, f.Late, f.Unpaid = time.Duration(time.Duration(p.HoldFor)), time.Duration(p.Grace), time.Duration(p.ExtendBy), string(p.Late), p.UnpaidPerUser
	}
	if s.Units != nil {
		f.Units = s.Units.Ranges
	}
	for _, r := range s.Rules {
		f.Rules = append(f.Rules, r.Require)
	}
	if s.Users != nil && s.Users.Table != nil {
		f.Sources.Users = s.Users.Table.Table
	}
	if s.History != nil {
		f.Sources.History = s.History.Table.Table
	}
	return f
}

// export makes the content of an export's file at the store, and reads it back.
func (m *commandMachine) export(ctx context.Context, sale export.Sale) (path string, digest []byte, err error) {
	var content bytes.Buffer
	if err := sale.Write(ctx, &content); err != nil {
		return "", nil, err
	}
	sum := sha256.Sum256(content.Bytes())
	if err = sale.Check(ctx, bytes.NewReader(content.Bytes())); err == nil {
		m.content = content.Bytes()
	}
	return "", sum[:], err
}

// exporting is an export as a call: its content is safe when the reply is there.
func (m *commandMachine) exporting(c calls.Call) calls.Call {
	make, took := c.Make, c.Took
	c.Timeout = 30 * time.Second
	c.Make = func(ctx context.Context, logs ledger.Logs, node quorum.Node, list lists.Node) any {
		m.content = nil
		made := make(ctx, logs, node, list)
		return exportReply{made, m.content}
	}
	c.Took = func(now clock.Now, reply any, err error) {
		if r, ok := reply.(exportReply); ok {
			if reply = r.made; r.content != nil {
				m.operators.exported(r.content)
			}
		}
		took(now, reply, err)
	}
	return c
}

type exportReply struct {
	made    any
	content []byte // nil: it failed
}
