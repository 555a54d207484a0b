package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"salectl/backends/ledger"
	"salectl/planner"
	"salectl/spec"
)

// rehearsals is the list of a sale's rehearsals that are under way or were
// killed. A store cannot be searched for logs, so each rehearsal notes its name
// here before it creates anything, and strikes it out after everything is gone.
//
// The list is the head of a log of its own, which stays when the list is empty:
// names of rehearsals are random, and never come again, because HBase hides a
// row that is written after its namesake was deleted.
type rehearsals struct {
	logs ledger.Logs
	log  string
	base string // what the names of all rehearsals of the sale begin with
}

// rehearsalList is the stored form. The slot makes no two heads alike.
type rehearsalList struct {
	Slot uint64         `json:"slot"`
	Live []rehearsalRun `json:"live"`
}

type rehearsalRun struct {
	Name  string    `json:"name"`
	Since time.Time `json:"since"`
}

func rehearsalsOf(logs ledger.Logs, sale string) *rehearsals {
	digest := sha256.Sum256([]byte(sale))
	base := planner.RehearsalPrefix + hex.EncodeToString(digest[:4])
	return &rehearsals{logs: logs, log: spec.SaleLog(base), base: base}
}

// name returns a name that no rehearsal ever had.
func (r *rehearsals) name() string { return r.base + "-" + strings.ToLower(rand.Text()) }

// add notes a rehearsal, and returns those that were noted before.
func (r *rehearsals) add(ctx context.Context, name string, now time.Time) ([]rehearsalRun, error) {
	var before []rehearsalRun
	err := r.change(ctx, func(live []rehearsalRun) ([]rehearsalRun, bool) {
		if has(live, name) {
			return nil, false
		}
		before = live
		return append(slices.Clone(live), rehearsalRun{name, now.UTC()}), true
	})
	return before, err
}

// strike takes one off the list.
func (r *rehearsals) strike(ctx context.Context, name string) error {
	return r.change(ctx, func(live []rehearsalRun) ([]rehearsalRun, bool) {
		return slices.DeleteFunc(slices.Clone(live), func(run rehearsalRun) bool { return run.Name == name }), has(live, name)
	})
}

func has(live []rehearsalRun, name string) bool {
	return slices.ContainsFunc(live, func(run rehearsalRun) bool { return run.Name == name })
}

// change replaces the list until edit finds nothing left to change. Whatever
// came of an append, the list says: edits are made so that one that was stored
// is not wanted again.
func (r *rehearsals) change(ctx context.Context, edit func([]rehearsalRun) ([]rehearsalRun, bool)) error {
	const tries = 20
	var last error
	for range tries {
		head, _, err := r.logs.Read(ctx, r.log, 0, 1)
		if err != nil {
			return fmt.Errorf("the list of rehearsals: %w", err)
		}
		list, next := rehearsalList{}, uint64(0)
		if head != nil {
			if err := json.Unmarshal(head, &list); err != nil {
				return fmt.Errorf("the list of rehearsals in log %s: %w", r.log, err)
			}
			next = list.Slot + 1
		}
		live, wanted := edit(list.Live)
		if !wanted {
			return nil
		}
		stored, err := json.Marshal(rehearsalList{Slot: next, Live: live})
		if err != nil {
			return err
		}
		last = r.logs.Append(ctx, r.log, next, head, stored, bytes.Clone(stored))
		if last == nil {
			if next == 0 {
				return nil
			}
			return r.logs.Delete(ctx, r.log, next-1) // all that counts is the head
		}
		switch {
		case errors.Is(last, fs.ErrPermission):
			return fmt.Errorf("the list of rehearsals: %w", last)
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
	return fmt.Errorf("the list of rehearsals: gave up after %d tries: %w", tries, last)
}
