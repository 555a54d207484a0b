package planner

import (
	"strings"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/spec"
)

// What the calls of a Machine are called. An append has the name of what it
// appends, so that each is a step at which a command may be killed.
const (
	nameReadSale    = "read sale"
	nameReadShard   = "read shard"
	nameHeads       = "read heads"
	namePlanned     = "planned"
	nameApplied     = "applied"
	nameCreateShard = "create shard" // its first slot
	nameGeneration  = "generation"
	nameClose       = "close"     // a generation that is closed for good
	nameDriveIn     = "drive in"  // units that another shard has sent, for an owner that is away
	nameDriveOut    = "drive out" // the end of a transfer that was received
	nameExpire      = "expire"    // the end of holds
	nameSeal        = "seal"      // of a shard
	nameExport      = "export"
	nameSealed      = "sealed" // the note in the sale's log
	nameDelete      = "delete"
	nameDestroyed   = "destroyed"
	nameInfo        = "info"
	nameReadLeases  = "read leases"
	nameReadMarker  = "read marker"
	nameMark        = "mark" // by a new sale: the node votes at once
	nameMendMarker  = "mend marker"
	nameFindOwner   = "find owner"
	nameSweepList   = "sweep list"
	nameSweepLeases = "sweep leases"
	nameSweepMarker = "sweep marker"

	// On the shards' lists, and what is appended for their sake.
	nameSettings   = "read settings"
	nameInspect    = "inspect list"
	nameRebuild    = "rebuild" // a new fill
	nameDrain      = "drain"   // what a stream held, into the log
	nameListRun    = "ask list's run"
	nameStopList   = "stop list"
	nameReadStream = "read stream"
	nameFillList   = "fill list"
	nameStartList  = "start list"
	nameForgetList = "forget list"

	nameCheckTable  = "check table"
	nameCreateTable = "create table"

	nameOther = "other"
)

// name says what a call does.
func (k call) name() string {
	switch k.kind {
	case callLog:
		return k.logName()
	case callHeads:
		return nameHeads
	case callDelete:
		return nameDelete
	case callInfo:
		return nameInfo
	case callReadMarker:
		return nameReadMarker
	case callMark:
		if k.runID == "" {
			return nameMendMarker
		}
		return nameMark
	case callReadLeases:
		return nameReadLeases
	case callFindOwner:
		return nameFindOwner
	case callFindLeases:
		return nameSweepList
	case callCheckTable:
		return nameCheckTable
	case callCreateTable:
		return nameCreateTable
	case callRelease:
		return nameSweepLeases
	case callForget:
		return nameSweepMarker
	case callStep:
		return k.stepName()
	case callInspect:
		return nameInspect
	case callForgetList:
		return nameForgetList
	case callSettings:
		return nameSettings
	case callExport:
		return nameExport
	}
	return nameOther
}

func (k call) stepName() string {
	switch k.step.Kind {
	case lists.InspectCall:
		return nameInspect
	case lists.RunIDCall:
		return nameListRun
	case lists.StopCall:
		return nameStopList
	case lists.ReadCall:
		return nameReadStream
	case lists.PutCall:
		return nameFillList
	case lists.StartCall:
		return nameStartList
	}
	return nameOther
}

func (k call) logName() string {
	switch {
	case k.commit != nil:
		return appendName(k.commit.GetOps()[0], k.request.Slot)
	case k.request.Kind == ledger.ReadRequest && strings.HasPrefix(k.request.Log, spec.SaleLog("")):
		return nameReadSale
	}
	return nameReadShard
}

// appendName goes by the first op: the planner appends no commit of several
// kinds, except where it drives transfers and holds to their ends.
func appendName(op *pb.Op, slot uint64) string {
	switch op := op.GetOp().(type) {
	case *pb.Op_Planned:
		return namePlanned
	case *pb.Op_Applied:
		return nameApplied
	case *pb.Op_Sealed:
		return nameSealed
	case *pb.Op_Destroyed:
		return nameDestroyed
	case *pb.Op_Generation:
		switch {
		case slot == 0:
			return nameCreateShard
		case op.Generation.GetSettings().GetPhase() == pb.Phase_CLOSED:
			return nameClose
		}
		return nameGeneration
	case *pb.Op_In:
		return nameDriveIn
	case *pb.Op_Ack:
		return nameDriveOut
	case *pb.Op_Settle:
		return nameExpire
	case *pb.Op_Seal:
		return nameSeal
	case *pb.Op_Rebuild:
		return nameRebuild
	case *pb.Op_Claim:
		return nameDrain
	}
	return nameOther
}
