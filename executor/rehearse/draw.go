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

// A rehearsal of a draw begins like any other (Drive): each claim is an entry. Then drive.draw does this:
//
//  1. Drawing closes the sale and reveals the draw, as an operator would.
//  2. Buyers with ranked entries repeat their requests until the server reports that every award
//     is made, and sold or lapsed. A buyer answered `entered` may follow as a substitute. A buyer
//     answered `held` has won, and plays the story of the claim: see stories.
//  3. All other buyers repeat their requests.
//  4. All buyers repeat their requests once more, and must get the same answer as before.
//
// drawjudge.go judges the answers, and drawreport.go reports them.

// Drawing provides an operator's actions on a draw that a crowd has entered.
type Drawing struct {
	// Close stops the sale from accepting entries, and returns after it has closed.
	Close func(context.Context) error

	// Reveal publishes the order. It returns the names of the ranked claims in the order of their
	// ranks. Their buyers repeat their requests before the others: awards are held for seconds
	// only, and the requests of a large crowd take longer.
	Reveal func(context.Context) (ranked []string, err error)
}

// entrant is a buyer's request to enter a draw, with the answers to its key after the draw.
type entrant struct {
	click
	claim   string   // name of the entry; "": the request was refused, or its result is unknown
	doubt   bool     // no answer has reported yet whether it has entered
	place   int      // order of the repeated requests: from 0 the ranked, then inDoubt, then unranked
	answers []record // answers after the draw, in order of time
}

// Places of entrants without a rank.
const (
	inDoubt  = math.MaxInt - 1 // its rank is still unknown
	unranked = math.MaxInt
)

// last returns the last answer after the draw with the state of the entry, or nil.
func (e *entrant) last() *record {
	for i := len(e.answers) - 1; i >= 0; i-- {
		if !e.answers[i].later() {
			return &e.answers[i]
		}
	}
	return nil
}

// won returns the first answer that reports an award of a unit, even if the award has lapsed since,
// or nil.
func (e *entrant) won() *record {
	i := slices.IndexFunc(e.answers, func(r record) bool { return awarded(r.Outcome) })
	if i < 0 {
		return nil
	}
	return &e.answers[i]
}

// awarded reports whether an entry with this outcome was awarded a unit.
func awarded(o api.Outcome) bool { return o == api.Sold || o == api.Held || ended(o) }

// ended reports whether an entry with this outcome has lost its unit.
func ended(o api.Outcome) bool {
	return o == api.Expired || o == api.Cancelled || o == api.Refunded
}

// drawn is a draw after the end of its entries.
type drawn struct {
	*drive
	entrants []*entrant
	ranks    map[string]int // by claim, from 0
	workers  []*worker      // for repeated requests

	reveal   time.Duration // duration of the reveal
	revealed clock.Now
	sale     api.Sale // last status from the server
	missing  bool     // some awards were not reported, or neither sold nor lapsed, in time
}

// draw closes and reveals the draw that the records have entered, and repeats the requests of all
// buyers.
func (d *drive) draw(ctx context.Context, records []record) (err error) {
	w := &drawn{drive: d, entrants: entrantsOf(records)}
	d.drawn = w
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
	stories.Go(func() error { return w.poll(running, stories, w.entrants[:others]) })
	if err := stories.Wait(); err != nil {
		return err
	}
	if err := w.repeat(ctx, w.entrants[others:], nil); err != nil {
		return err
	}
	return w.repeat(ctx, w.entrants, nil)
}

// entrantsOf returns one entrant for each key that entered or was refused, however often it was
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
		e.story = max(e.story, r.story) // of two requests with one key the second has no story
	}
	return all
}

// order sorts the ranked entries first.
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

// poll repeats the requests of the ranked until the awards are complete, or until nothing has
// changed for Patience.
func (w *drawn) poll(ctx context.Context, stories *errgroup.Group, ranked []*entrant) error {
	const interval = 50 * time.Millisecond
	waiting, reported := ranked, -1
	var changed time.Duration
	for {
		sale, err := w.buyers.Status(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		now := w.Clock().Mono
		if err == nil {
			w.sale = sale
			if n := w.awards(); n != reported {
				reported, changed = n, now
			}
			if w.complete(reported) {
				return nil
			}
			if sale.Draw != nil && sale.Draw.Complete {
				if err := w.repeat(ctx, waiting, stories); err != nil {
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
		if err := w.Sleep(ctx, interval); err != nil {
			return err
		}
	}
}

// awards returns the number of entries that were reported as awarded.
func (w *drawn) awards() (n int) {
	for _, e := range w.entrants {
		if e.won() != nil {
			n++
		}
	}
	return n
}

// complete reports whether all possible awards are made and reported, and each is sold or has lapsed.
func (w *drawn) complete(reported int) bool {
	d := w.sale.Draw
	if d == nil || !d.Complete {
		return false
	}
	most := min(d.Ranks, d.Winners+d.Lapsed)
	return w.sale.Sold+d.Lapsed == most && int64(reported) == most
}

// repeat repeats the request of each entrant once. The first report of an award begins the buyer's
// story in the group stories. If stories is nil, no story begins.
func (w *drawn) repeat(ctx context.Context, entrants []*entrant, stories *errgroup.Group) error {
	return w.work(ctx, w.workers, len(entrants), func(sending context.Context, _ *errgroup.Group, one *worker, i int) error {
		e := entrants[i]
		r, err := one.send(sending, e.click)
		if err != nil {
			return err
		}
		before := e.won() != nil
		e.answers = append(e.answers, r)
		if e.doubt && r.ID != "" { // it had entered
			e.claim, e.doubt = r.ID, false
			e.place = w.place(e)
		}
		if before || stories == nil {
			return nil
		}
		return w.play(ctx, stories, r)
	})
}

// play begins the story of an award.
func (w *drawn) play(ctx context.Context, stories *errgroup.Group, r record) error {
	if w.Payment == nil {
		return nil
	}
	r.At = r.HeldUntil.Add(-time.Duration(w.Payment.HoldFor)) // time of the award; the claim has the time of the entry
	if r.Outcome == api.Expired {                             // the request came too late
		w.mu.Lock()
		defer w.mu.Unlock()
		w.plays = append(w.plays, &play{key: r.key, claim: r.Claim})
		return nil
	}
	return w.perform(ctx, stories, r)
}
