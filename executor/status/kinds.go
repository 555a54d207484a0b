package status

import "log/slog"

// The parts of a sale that may fail.
const (
	Ledger    = "ledger"
	LockNodes = "lock nodes"
	HostClock = "clock"
)

// The kinds of problems.
var (
	NodeDown = &Kind{
		Name: "node_down", Subject: "node", Level: slog.LevelWarn,
		Began: "a lock node cannot be used",
		Ended: "a lock node can be used again",
	}
	NodeAbstains = &Kind{
		Name: "node_abstains", Subject: "node", Level: slog.LevelWarn,
		Began: "a lock node has lost its memory and abstains",
		Ended: "a lock node votes again",
	}
	NodeClock = &Kind{
		Name: "node_clock", Subject: "node", Level: slog.LevelWarn,
		Began:  "the clock of a lock node is wrong",
		Ended:  "the clock of a lock node is right again",
		Remedy: "correct it; hours are compared with this process's clock",
	}
	Clock = &Kind{
		Name: "clock", Part: HostClock, Level: slog.LevelWarn,
		Began:  "this host's clock differs from the lock nodes' clocks: no claim is accepted until it is right",
		Ended:  "this host's clock agrees with the lock nodes' again",
		Remedy: "correct it; 'salectl status' shows what else can be done",
	}
	Quorum = &Kind{
		Name: "quorum_lost", Part: LockNodes, Level: slog.LevelError,
		Began: "no majority of the lock nodes votes",
		Ended: "a majority of the lock nodes votes again",
	}
	LedgerUnread = &Kind{
		Name: "ledger_unread", Part: Ledger, Level: slog.LevelError,
		Began:  "the sale's log cannot be read",
		Ended:  "the sale's log can be read again",
		Remedy: "check the store; the log is read again until it answers",
	}
	Payloads = &Kind{
		Name: "payloads_unread", Level: slog.LevelWarn,
		Began: "payloads of units cannot be read: claims are sold, but buyers must repeat the request to get their payloads",
		Ended: "payloads of units can be read again",
	}
	SaleLogGone = &Kind{
		Name: "sale_log_gone", Subject: "run", Level: slog.LevelError,
		Began:  "the sale's log is gone, but its run had not ended: the ledger was deleted or replaced",
		Remedy: "restore the ledger, and leave this process running until then; apply would start a run that sells all units again",
	}
	Rules = &Kind{
		Name: "rules_unchecked", Level: slog.LevelWarn,
		Began: "the rules cannot be checked: claims are answered not_checked",
		Ended: "the rules can be checked again",
	}
	PeerUnreached = &Kind{
		Name: "peer_unreached", Subject: "peer", Level: slog.LevelWarn,
		Began:  "another process of the sale is not reached: it has died, or the network to it is cut",
		Ended:  "another process of the sale is reached again, or no longer serves it",
		Remedy: "if it runs, check its --advertise and --token-file, and the network",
	}
	Isolated = &Kind{
		Name: "isolated", Subject: "advertises", Level: slog.LevelWarn,
		Began: "this process reaches fewer than half of the processes of the sale, while others reach each other: " +
			"it takes no shards, and releases its own after a ttl",
		Ended:  "this process takes shards again: it reaches half of the processes of the sale, or none of them reaches more",
		Remedy: "check its --advertise and --token-file, and the network",
	}
	Idle = &Kind{
		Name: "idle", Level: slog.LevelWarn,
		Began:  "no process may own shards: shards without an owner sell nothing",
		Ended:  "all shards have an owner again, or are assigned to one",
		Remedy: "run 'salectl drain --undo --admin URL' with the admin address of a process: it then owns shards again",
	}
	Stalled = &Kind{
		Name: "shards_stalled", Part: Ledger, Subject: "shards", Level: slog.LevelWarn,
		Began:  "shards stall: the store does not answer for them, or leaves the result open",
		Ended:  "shards continue",
		Remedy: "check the store; the calls are repeated until it answers",
	}
	ListsStalled = &Kind{
		Name: "lists_stalled", Part: LockNodes, Subject: "shards", Level: slog.LevelWarn,
		Began: "shards stall: the node of their lists does not answer, or answers incorrectly",
		Ended: "shards continue: the node of their lists answers",
	}
	ShardLogBroken = &Kind{
		Name: "shard_log_broken", Subject: "shards", Level: slog.LevelError,
		Began:  "a shard's log is gone or damaged: its units are not sold, and its users' claims are not decided",
		Remedy: "run 'salectl plan' and 'salectl audit'; do not stop this process: it has the length that the log had",
	}
	ShardLogAhead = &Kind{
		Subject: "shards", Past: true, Level: slog.LevelWarn,
		Began:  "the time of a shard's log was ahead of this host's clock and was set back: a clock was wrong when it was written",
		Remedy: "check that this host's clock is right; earlier claims keep their times",
	}
	ShardLogLarge = &Kind{
		Name: "shard_log_large", Subject: "shards", Level: slog.LevelWarn,
		Began: "a shard's log is large; destroy the sale in time and start a new run with a larger lockCount",
	}
)

// Kinds are the kinds of problems that may be present.
var Kinds = []*Kind{
	NodeDown, NodeAbstains, NodeClock, Clock, Quorum, LedgerUnread, Payloads, SaleLogGone, Rules, PeerUnreached, Isolated, Idle,
	Stalled, ListsStalled, ShardLogBroken, ShardLogLarge,
}
