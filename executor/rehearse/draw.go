package rehearse

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"salectl/api"
	"salectl/backends/clock"
)

// A rehearsal of a draw. The crowd of any sale enters it (Drive): each claim is an entry.
// Then, in drive.draw:
//
//  1. The sale is closed and the draw revealed, by Drawing, as an operator would.
//  2. Buyers whose entries are ranked ask again with their keys, and those who are told
//     entered ask again and again, as they may follow as substitutes, until the server says
//     that all awards are made and settled. A buyer who is told held has won, and plays the
//     story of its claim: see stories.
//  3. All others ask, too.
//  4. All buyers ask once more, and are to be told the same as before.
//
// What buyers were told is judged in drawjudge.go, and reported in drawreport.go.

// Drawing is what an operator does to a draw that a crowd has entered.
type Drawing struct {
	// Close has the sale take no more entries, and returns once it has closed.
	Close func(context.Context) error

	// Reveal publishes the order. It returns the names of the ranked claims, the first
	// rank first. Their buyers ask before the others, since what they have won is held for
	// seconds, and a large crowd takes longer to ask.
	Reveal func(context.Context) (ranked []string, err error)
}

// entrant is a buyer's request to enter a draw, and what was told to whoever asked again
// with its key after the draw.
type entrant struct {
	click
	claim string   // the name of the entry; "": the request was refused, or nobody knows
	doubt bool     // no answer has told yet whether it has entered
	place int      // in the order in which buyers ask: from 0 the ranked, then inDoubt, then unranked
	told  []record // in order of time
}

// The places of entrants that have no rank.
const (
	inDoubt  = math.MaxInt - 1 // it may turn out to have one
	unranked = math.MaxInt
)

// last returns the last answer after the draw that says something of the entry.
func (e *entrant) last() *record {
	for i := len(e.told) - 1; i >= 0; i-- {
		if !e.told[i].later() {
			return &e.told[i]
		}
	}
	return nil
}

// won returns the first answer that says that the entry was awarded a unit, also of an
// award that has come to nothing since; nil: none does.
func (e *entrant) won() *record {
	i := slices.IndexFunc(e.told, func(r record) bool { return awarded(r.Outcome) })
	if i < 0 {
		return nil
	}
	return &e.told[i]
}

// awarded reports whether an entry with this outcome was awarded a unit.
func awarded(o api.Outcome) bool { return o == api.Sold || o == api.Held || ended(o) }

// ended reports whether an entry with this outcome has lost its unit again.
func ended(o api.Outcome) bool {
	return o == api.Expired || o == api.Cancelled || o == api.Refunded
}

// drawn is a draw after its crowd has entered.
type drawn struct {
	*drive
	entrants []*entrant
	ranks    map[string]int // of claims, from 0
	workers  []*worker      // those who ask again
	status   *api.Client

	reveal   time.Duration // how long it took to reveal
	revealed clock.Now
	sale     api.Sale // as the server said last
	missing  bool     // not all awards were told and settled when patience was over
}

// draw closes and reveals the draw that the records have entered, and lets all buyers hear
// what came of it.
func (d *drive) draw(ctx context.Context, records []record) (err error) {
	w := &drawn{drive: d, entrants: entrantsOf(records)}
	d.drawn = w
	if w.status, err = api.NewClient(d.api); err != nil {
		return err
	}
	if w.workers, err = d.newWorkers(len(w.entrants)); err != nil {
		return err
	}
	if err := d.Draw.Close(ctx); err != nil {
		return err
	}
	began := d.Clock()
	ranked, err := d.Draw.Reveal(ctx)
	if err != nil {
		return err
	}
	w.revealed = d.Clock()
	w.reveal = w.revealed.Mono - began.Mono
	w.order(ranked)

	others, _ := slices.BinarySearchFunc(w.entrants, unranked, func(e *entrant, place int) int { return cmp.Compare(e.place, place) })
	stories, running := errgroup.WithContext(ctx)
	stories.Go(func() error { return w.hear(running, stories, w.entrants[:others]) })
	if err := stories.Wait(); err != nil {
		return err
	}
	if err := w.ask(ctx, w.entrants[others:], nil); err != nil {
		return err
	}
	return w.ask(ctx, w.entrants, nil)
}

// entrantsOf returns each request that entered or was refused once, however often it was
// sent.
func entrantsOf(records []record) (all []*entrant) {
	byKey := map[string]*entrant{}
	for i := range records {
		r := &records[i]
		e := byKey[r.key]
		if e == nil {
			e = &entrant{click: r.click}
			byKey[r.key], all = e, append(all, e)
		}
		switch {
		case r.accepted():
			e.claim, e.doubt = r.ID, false
		case r.later():
			e.doubt = e.claim == ""
		}
		e.story = max(e.story, r.story) // the second of two requests with one key has none
	}
	return all
}

// order puts the ranked entries first.
func (w *drawn) order(ranked []string) {
	w.ranks = make(map[string]int, len(ranked))
	for i, claim := range ranked {
		w.ranks[claim] = i
	}
	for _, e := range w.entrants {
		e.place = w.place(e)
	}
	slices.SortStableFunc(w.entrants, func(a, b *entrant) int { return cmp.Compare(a.place, b.place) })
}

func (w *drawn) place(e *entrant) int {
	rank, is := w.ranks[e.claim]
	switch {
	case e.doubt:
		return inDoubt
	case !is:
		return unranked
	}
	return rank
}

// hear has the ranked ask until all that is to be awarded has been awarded and settled, or
// nothing has changed for as long as a buyer's patience lasts.
func (w *drawn) hear(ctx context.Context, stories *errgroup.Group, ranked []*entrant) error {
	const look = 50 * time.Millisecond
	waiting, told := ranked, -1
	var changed time.Duration
	for {
		sale, err := w.status.Status(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		now := w.Clock().Mono
		if err == nil {
			w.sale = sale
			if n := w.awards(); n != told {
				told, changed = n, now
			}
			if w.settled(told) {
				return nil
			}
			if sale.Draw != nil && sale.Draw.Complete {
				if err := w.ask(ctx, waiting, stories); err != nil {
					return err
				}
				waiting = slices.DeleteFunc(slices.Clone(ranked), func(e *entrant) bool {
					last := e.last()
					return last != nil && last.Outcome != api.Entered
				})
			}
		}
		if w.missing = now-changed > w.Patience; w.missing {
			return nil
		}
		if err := w.Sleep(ctx, look); err != nil {
			return err
		}
	}
}

// awards returns how many entries are said to have been awarded a unit.
func (w *drawn) awards() (n int) {
	for _, e := range w.entrants {
		if e.won() != nil {
			n++
		}
	}
	return n
}

// settled reports whether all awards are made, told and over: each is sold or has come to
// nothing, and there are as many as there may be.
func (w *drawn) settled(told int) bool {
	d := w.sale.Draw
	if d == nil || !d.Complete {
		return false
	}
	most := min(d.Ranks, d.Winners+d.Lapsed)
	return w.sale.Sold+d.Lapsed == most && int64(told) == most
}

// ask has each of the entrants ask once more with its key. Buyers who are told for the
// first time that they have won begin their stories, which go on in the group; none begins
// where there is no group.
func (w *drawn) ask(ctx context.Context, entrants []*entrant, stories *errgroup.Group) error {
	w.next.Store(0)
	w.start = w.Clock()
	g, asking := errgroup.WithContext(ctx)
	for _, one := range w.workers {
		g.Go(func() error {
			for {
				i := int(w.next.Add(1)) - 1
				if i >= len(entrants) {
					return nil
				}
				e := entrants[i]
				r, err := one.ask(asking, e.click)
				if err != nil {
					return err
				}
				before := e.won() != nil
				e.told = append(e.told, r)
				if e.doubt && r.ID != "" { // so it had entered
					e.claim, e.doubt = r.ID, false
					e.place = w.place(e)
				}
				if before || stories == nil {
					continue
				}
				if err := w.play(ctx, stories, r); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

// play begins the story of an award.
func (w *drawn) play(ctx context.Context, stories *errgroup.Group, r record) error {
	if w.Payment == nil {
		return nil
	}
	r.At = r.HeldUntil.Add(-w.Payment.HoldFor) // of the award: what the claim says is the time of the entry
	if r.Outcome == api.Expired {              // the buyer has asked too late
		w.mu.Lock()
		defer w.mu.Unlock()
		w.plays = append(w.plays, &play{story: abandons, key: r.key, claim: r.Claim})
		return nil
	}
	return w.payers.perform(ctx, stories, r)
}
