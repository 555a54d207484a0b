package api

// Processes of a sale, as known to one of them.

// Process is one process of a sale.
type Process struct {
	Address string `json:"address"` // address for claims
	Version string `json:"version,omitempty"`
	// State is serving, or why the process should own no shard: standby, draining, or unable
	// if its clock is wrong.
	State string `json:"state"`
	Self  bool   `json:"here,omitempty"` // the answering process
	Up    bool   `json:"up"`             // the answering process has heard from it within a second
	// Shards is the number of owned shards, nil if unknown; Assigned that of assigned ones.
	Shards   *int `json:"shards,omitempty"`
	Assigned int  `json:"assigned"`
	// Requests is the recent rate per second of claims and settlements from clients, Forwarded
	// the rate of those passed on to other processes. nil: unknown.
	Requests  *float64 `json:"requests,omitempty"`
	Forwarded *float64 `json:"forwarded,omitempty"`
}

// States of a process.
const (
	ProcessServing  = "serving"
	ProcessStandby  = "standby"
	ProcessDraining = "draining"
	ProcessUnable   = "unable"
)

// Move is a shard assigned to another reachable process than its owner, or about to move.
type Move struct {
	Shard int    `json:"shard"`
	From  string `json:"from,omitempty"` // address; "": no owner is known
	To    string `json:"to"`
	// Stage is the progress at the answering process: it follows the shard's log, takes the
	// shard, or gives it; otherwise due.
	Stage string `json:"stage"`
}

// Stages of a move.
const (
	MoveDue     = "due"
	MoveFollows = "follows"
	MoveTakes   = "takes"
	MoveGives   = "gives"
)
