package api

// Who serves a sale, as one of its processes knows it.

// Process is one process of a sale.
type Process struct {
	Address string `json:"address"` // where it answers claims
	Version string `json:"version,omitempty"`
	// State is serving, or why the process is to own no shard: standby, draining, or unable,
	// where its clock is wrong.
	State string `json:"state"`
	Here  bool   `json:"here,omitempty"` // it is the one that answers
	Up    bool   `json:"up"`             // it has said something to the one that answers within a second
	// Shards is how many the process owns, nil where that is not known; Assigned how many
	// are assigned to it.
	Shards   *int `json:"shards,omitempty"`
	Assigned int  `json:"assigned"`
	// Requests and Forwarded are the claims and settlements that clients asked it for, lately,
	// a second, and those of them that it passed on to other processes. nil: that is not known.
	Requests  *float64 `json:"requests,omitempty"`
	Forwarded *float64 `json:"forwarded,omitempty"`
}

// The states of a process.
const (
	ProcessServing  = "serving"
	ProcessStandby  = "standby"
	ProcessDraining = "draining"
	ProcessUnable   = "unable"
)

// Ownership is who owns a shard and how busy that is.
type Ownership struct {
	Shard   int      `json:"shard"`
	Owner   string   `json:"owner,omitempty"`   // the address of the process; "": it is not known
	Load    *float64 `json:"load,omitempty"`    // requests decided a second, lately; nil: it is not known
	Waiting int      `json:"waiting,omitempty"` // requests
	Busy    bool     `json:"busy,omitempty"`    // it decides on far more than the other shards
}

// Move is a shard that is assigned to another reachable process than its owner, or is about to move.
type Move struct {
	Shard int    `json:"shard"`
	From  string `json:"from,omitempty"` // an address; "": nobody is known to own the shard
	To    string `json:"to"`
	// Stage is how far the process that answers is: it follows the shard's log, takes the
	// shard, or gives it; due, where it does none of that.
	Stage string `json:"stage"`
}

// The stages of a move.
const (
	MoveDue     = "due"
	MoveFollows = "follows"
	MoveTakes   = "takes"
	MoveGives   = "gives"
)
