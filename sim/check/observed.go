package check

import "time"

// observed is what a world writes down for the checkers of verdicts and figures: what could
// leave a request open, and what the processes reported of themselves.
type observed struct {
	Breaks    []Break       // in order
	Kills     []Kill        // in order
	Forwards  []Forward     // in order
	Withdrawn map[int]bool  // operations whose clients stopped waiting
	Stopped   time.Duration // when the faults stopped; 0: they have not
	Reports   []Report      // in order
}

// Break is the loss of the reply to an append, or to a call for units of a list, or the reply that
// the slot of an append is taken: its process does not know what became of the requests in it.
type Break struct {
	Place
	Process string // its address
}

// Kill is the death of a process.
type Kill struct {
	Place
	Process string // its address
}

// Forward is a claim that a process has sent to another, from then until it has the reply.
type Forward struct {
	Place
	To        string // the address of that
	User, Key string
	Ended     uint64 // 0: there was no reply
}

// Report is the status and the metrics of a process at one time.
type Report struct {
	Place
	Process string // one run of an executor
	Writer  string // as commits name it
	UID     string // of the run of the sale that it serves; "": it serves none
	Whole   bool   // it reports on all shards
	Idle    bool   // the world is at rest: nobody waits for an answer
	Shards  []ShardReport
	Metrics map[string]float64 // by name, behind a blank the values of the labels but sale
}

// ShardReport is the status of one shard, as of a slot of its log.
type ShardReport struct {
	Shard                                   int
	Slot                                    uint64
	Epoch, Generation                       uint64
	Limit, Available, Held, Sold, InFlight  int64
	Entries                                 int64
	OpenHolds, Confirmed, Expired           int64
	Cancelled, Refunded, Resold, RefundsDue int64
	Returned                                int64
}

// Broke adds a Break of the process at an address.
func (h *History) Broke(at time.Duration, process string) {
	h.Breaks = append(h.Breaks, Break{h.place(at), process})
}

// Killed adds a Kill of the process at an address.
func (h *History) Killed(at time.Duration, process string) {
	h.Kills = append(h.Kills, Kill{h.place(at), process})
}

// Forwarded adds a Forward, and returns what to call when its reply is there.
func (h *History) Forwarded(at time.Duration, to, user, key string) (ended func()) {
	n := len(h.Forwards)
	h.Forwards = append(h.Forwards, Forward{Place: h.place(at), To: to, User: user, Key: key})
	return func() {
		h.seq++
		h.Forwards[n].Ended = h.seq
	}
}

// Withdrew adds that the client of an operation stopped waiting.
func (h *History) Withdrew(op int) {
	if h.Withdrawn == nil {
		h.Withdrawn = make(map[int]bool)
	}
	h.Withdrawn[op] = true
}

// Reported adds a Report.
func (h *History) Reported(at time.Duration, r Report) {
	r.Place = h.place(at)
	h.Reports = append(h.Reports, r)
}
