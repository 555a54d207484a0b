package planner

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/rules"
	"salectl/spec"
)

// follow returns the next generation of a live run, with new settings and no other change.
func follow(sale *ledger.Sale, settings *pb.Settings) *pb.Planned {
	newest := sale.Newest()
	next := &pb.Planned{
		Generation: sale.Generation() + 1, Uid: sale.UID(), Run: sale.Run(), Spec: newest.GetSpec(),
		Settings: settings, NextUnit: newest.GetNextUnit(), Units: newest.GetUnits(),
	}
	for range sale.Shards() {
		next.Shards = append(next.Shards, &pb.ShardChange{})
	}
	return next
}

// withPhase returns a copy of the settings with another phase.
func withPhase(s *pb.Settings, phase pb.Phase) *pb.Settings {
	next := proto.CloneOf(s)
	next.Phase = phase
	return next
}

// withRows returns a copy of the settings with other rows.
func withRows(s *pb.Settings, rows []*pb.Range) *pb.Settings {
	next := proto.CloneOf(s)
	next.Rows = rows
	return next
}

// settingsOf returns the settings that shards receive for a declaration, except the rows of
// units.
func settingsOf(s spec.Sale, phase pb.Phase) *pb.Settings {
	settings := &pb.Settings{PerUserLimit: s.PerUserLimit, Phase: phase, Partial: s.Partial, Secret: s.Units != nil && s.Units.Secret, Draw: s.Draw != nil}
	if !s.OpensAt.IsZero() {
		settings.OpensAtUs = s.OpensAt.UnixMicro()
	}
	if !s.ClosesAt.IsZero() {
		settings.ClosesAtUs = s.ClosesAt.UnixMicro()
	}
	if s.Payment != nil {
		settings.Payment = paymentOf(*s.Payment)
	}
	if hash, ok := rules.HashFor(s); ok {
		settings.Rules = hash[:]
	}
	settings.Choose = s.Units != nil && s.Units.Choose
	return settings
}

// phaseOf converts a declared phase; unspecified: none is declared.
func phaseOf(declared spec.Phase) pb.Phase {
	return pb.Phase(pb.Phase_value[strings.ToUpper(string(declared))])
}

// Declared returns the declaration of a generation.
func Declared(planned *pb.Planned) (spec.Sale, error) {
	sale, err := spec.FromJSON(planned.GetSpec())
	if err != nil {
		return spec.Sale{}, fmt.Errorf("generation %d: %w", planned.GetGeneration(), err)
	}
	return sale, nil
}

// EngineOf returns the engine of a generation.
func EngineOf(p *pb.Planned) spec.Engine {
	old, _ := Declared(p) // an unreadable declaration names none
	return old.Engine
}

// TimeText returns a time as plans and answers show it: RFC 3339, UTC; "" for the zero time.
func TimeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// differ returns the stored form of a declaration, and whether it differs from an earlier one.
func differ(desired, old spec.Sale) (declaration []byte, changed bool, err error) {
	declaration, err = desired.JSON()
	before, err2 := old.JSON()
	return declaration, !bytes.Equal(declaration, before), errors.Join(err, err2)
}

// paymentOf converts a declared payment to that of the shards' settings.
func paymentOf(p spec.Payment) *pb.Payment {
	return &pb.Payment{
		HoldForUs: time.Duration(p.HoldFor).Microseconds(), GraceUs: time.Duration(p.Grace).Microseconds(),
		ExtendByUs:    time.Duration(p.ExtendBy).Microseconds(),
		Late:          pb.Payment_Late(pb.Payment_Late_value[strings.ToUpper(string(p.Late))]),
		UnpaidPerUser: p.UnpaidPerUser,
	}
}

// paymentShown describes the payment of settings, without the payment service, which shards do
// not have; nil if they sell at once.
func paymentShown(p *pb.Payment) *spec.Payment {
	if p == nil {
		return nil
	}
	us := func(n int64) spec.Duration { return spec.Duration(n) * spec.Duration(time.Microsecond) }
	return &spec.Payment{
		HoldFor: us(p.GetHoldForUs()), Grace: us(p.GetGraceUs()), ExtendBy: us(p.GetExtendByUs()),
		Late:          spec.Late(strings.ToLower(p.GetLate().String())),
		UnpaidPerUser: p.GetUnpaidPerUser(),
	}
}

// withService returns the payment of settings with the declared payment service. Nil stays
// nil: claims are not paid.
func withService(p, declared *spec.Payment) *spec.Payment {
	if p != nil && declared != nil {
		p.Check, p.Webhook = declared.Check, declared.Webhook
	}
	return p
}
