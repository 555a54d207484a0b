package process_test

import (
	"salectl/executor/process"
	"salectl/executor/request"
	"salectl/executor/shard"
)

type (
	Request    = request.Request
	Settlement = request.Settlement
	Query      = request.Query
	Answer     = request.Answer
	Claim      = request.Claim
	ClaimID    = request.ClaimID
	Hold       = shard.Hold
	HoldsSeen  = process.HoldsSeen
	OpenUsers  = process.OpenUsers
)
