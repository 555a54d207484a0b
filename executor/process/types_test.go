package process_test

import (
	"salectl/executor/process"
	"salectl/executor/shard"
)

type (
	Request    = shard.Request
	Settlement = shard.Settlement
	Query      = shard.Query
	Answer     = shard.Answer
	Claim      = shard.Claim
	ClaimID    = shard.ClaimID
	Hold       = shard.Hold
	HoldsSeen  = process.HoldsSeen
	OpenUsers  = process.OpenUsers
)
