package audit

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"salectl/backends/ledger"
	"salectl/draw"
)

// Report is the result of an audit. If OK, it proves as far as the ledger reaches that every
// unit ever dealt is in exactly one place, no user exceeded the limit, and every log is
// complete.
type Report struct {
	OK              bool   `json:"ok"`
	Sale            string `json:"sale"`
	UID             string `json:"uid"`
	Stock           int64  `json:"stock"` // units added minus removed
	Sold            int64  `json:"sold"`
	Held            int64  `json:"held"`
	Available       int64  `json:"available"`
	InFlight        int64  `json:"inFlight"`
	Users           int64  `json:"users"` // users with units, held or sold
	Shards          int    `json:"shards"`
	Slots           uint64 `json:"slots"`
	Oversold        int64  `json:"oversold"`  // units in two places
	OverLimit       int64  `json:"overLimit"` // users who had more than the limit
	ledger.Outcomes        // of the claims
	// HoldTimes are the times that units spent in holds, nil if no hold has ended.
	HoldTimes *HoldTimes `json:"holdTimes,omitempty"`
	Problems  []string   `json:"problems"`
	// Warnings are findings that do not contradict the sale but matter to its operator: see
	// Report.Warn.
	Warnings []string `json:"warnings"`

	// Draw is the result of the draw, nil if the sale is not a draw.
	Draw *draw.Report `json:"draw,omitempty"`

	// Packets is the result of the red packet, nil if the units are not packets of money.
	Packets *Packets `json:"packets,omitempty"`

	heads map[string]ledger.Head // of the logs that were read
}

// Warn adds a warning for each log whose time is ahead of now: an entry was appended by a wrong
// clock, and hours may have been judged by it.
func (a *Report) Warn(now time.Time) {
	for _, log := range slices.Sorted(maps.Keys(a.heads)) {
		if by, wrong := a.heads[log].Ahead(now); wrong {
			a.Warnings = append(a.Warnings, fmt.Sprintf("the time of log %s is %v ahead of this host's clock: a clock was wrong when it was appended to, or this one is",
				log, by.Round(time.Second)))
		}
	}
}

// Problem adds a problem, up to a maximum number.
func (a *Report) Problem(format string, args ...any) {
	if len(a.Problems) < enough {
		a.Problems = append(a.Problems, fmt.Sprintf(format, args...))
	}
}
