package planner

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// Declared returns the declaration of a generation.
func Declared(planned *pb.Planned) (spec.Sale, error) {
	sale, err := spec.FromJSON(planned.GetSpec())
	if err != nil {
		return spec.Sale{}, fmt.Errorf("generation %d: %w", planned.GetGeneration(), err)
	}
	return sale, nil
}

func SaleAddress(name string) string { return "sale/" + name }
func ShardAddress(i int) string      { return "shard/" + strconv.Itoa(i) }
func NodeAddress(name string) string { return "node/" + name }

// EngineOf returns the engine of a generation.
func EngineOf(p *pb.Planned) spec.Engine {
	old, _ := Declared(p) // an unreadable declaration names none
	return old.Engine
}

func ListAddress(i int) string { return fmt.Sprintf("list/%d", i) }

func TableAddress(name string) string { return "table/" + name }

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
