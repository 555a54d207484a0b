package rehearse

import (
	"time"

	"salectl/api"
)

// Draw reports the entries of a draw and their results. All counts are of answers to buyers.
type Draw struct {
	Entries       int     `json:"entries"`
	Users         int     `json:"users"`         // users with an entry
	SecondEntries int     `json:"secondEntries"` // requests refused because the user has an entry
	SameAnswer    int     `json:"sameAnswer"`    // repeated requests answered with their own entry
	EnterSeconds  float64 `json:"enterSeconds"`  // from the first request to the last answer

	RevealSeconds float64 `json:"revealSeconds"` // duration of publishing entries, secret and ranks
	// Time from the end of the reveal to the last report of an award to a winner, and to a
	// substitute. Substitutes wait for lapsed awards.
	WinnersToldSeconds     float64 `json:"winnersToldSeconds"`
	SubstitutesToldSeconds float64 `json:"substitutesToldSeconds,omitempty"`

	Ranks       int `json:"ranks"`       // number of published ranks
	Winners     int `json:"winners"`     // entries awarded a unit of the stock
	Substitutes int `json:"substitutes"` // entries awarded a returned unit
	Lapsed      int `json:"lapsed"`      // lapsed awards

	// Told counts entries by their last answer. Those with `entered` may still win.
	Told map[string]int `json:"told"`
}

// report summarizes the results of the entries.
func (w *drawn) report(records []record, took time.Duration) *Draw {
	r := &Draw{
		EnterSeconds: round(took.Seconds()), RevealSeconds: round(w.reveal.Seconds()),
		Ranks: len(w.ranks), Told: map[string]int{},
	}
	for i := range records {
		switch one := &records[i]; {
		case one.label() == string(api.Replayed):
			r.SameAnswer++
		case one.Outcome == api.LimitReached && one.quantity == 1:
			r.SecondEntries++
		}
	}
	users, stock := map[string]bool{}, int(min(w.Stock, int64(len(w.ranks))))
	for _, e := range w.entrants {
		if e.claim == "" {
			continue
		}
		r.Entries++
		users[e.user] = true
		last := e.last()
		if last == nil {
			r.Told[string(api.Unknown)]++
			continue
		}
		r.Told[string(last.Outcome)]++
		if ended(last.Outcome) {
			r.Lapsed++
		}
		if won := e.won(); won != nil {
			at := round((won.ended.Mono - w.revealed.Mono).Seconds())
			if e.place < stock {
				r.Winners++
				r.WinnersToldSeconds = max(r.WinnersToldSeconds, at)
			} else {
				r.Substitutes++
				r.SubstitutesToldSeconds = max(r.SubstitutesToldSeconds, at)
			}
		}
	}
	r.Users = len(users)
	return r
}
