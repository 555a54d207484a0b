package audit

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"salectl/backends/ledger"
	"salectl/draw"
)

// Report is what an audit found. It is a proof as far as the ledger reaches:
// every unit ever dealt is in exactly one place, nobody passed the limit, and
// every log is whole.
type Report struct {
	OK              bool   `json:"ok"`
	Sale            string `json:"sale"`
	UID             string `json:"uid"`
	Stock           int64  `json:"stock"` // units added minus removed
	Sold            int64  `json:"sold"`
	Held            int64  `json:"held"`
	Available       int64  `json:"available"`
	InFlight        int64  `json:"inFlight"`
	Users           int64  `json:"users"` // that have units, held or sold
	Shards          int    `json:"shards"`
	Slots           uint64 `json:"slots"`
	Oversold        int64  `json:"oversold"`  // units that are in two places
	OverLimit       int64  `json:"overLimit"` // users who had more than the limit
	ledger.Outcomes        // of the claims
	// HoldTimes says how long units lay in holds, nil if no hold has ended.
	HoldTimes *HoldTimes `json:"holdTimes,omitempty"`
	Problems  []string   `json:"problems"`
	// Warnings are what does not speak against the sale and matters all the same: see
	// Report.Warn.
	Warnings []string `json:"warnings"`

	// Draw is what the draw comes to, nil if the sale is none.
	Draw *draw.Report `json:"draw,omitempty"`

	// Packets is what the units come to, nil if they are no packets of money.
	Packets *Packets `json:"packets,omitempty"`

	heads map[string]ledger.Head // of the logs that were read
}

// Warn adds a warning for each log whose time is ahead of a clock: somebody has
// appended to it by a clock that was wrong, and hours may have been judged by it.
func (a *Report) Warn(now time.Time) {
	for _, log := range slices.Sorted(maps.Keys(a.heads)) {
		if by, wrong := a.heads[log].Ahead(now); wrong {
			a.Warnings = append(a.Warnings, fmt.Sprintf("the time of log %s is %v ahead of this host's clock: a clock was wrong when it was appended to, or this one is",
				log, by.Round(time.Second)))
		}
	}
}

// Problem adds a problem, unless there are enough.
func (a *Report) Problem(format string, args ...any) {
	if len(a.Problems) < enough {
		a.Problems = append(a.Problems, fmt.Sprintf(format, args...))
	}
}
