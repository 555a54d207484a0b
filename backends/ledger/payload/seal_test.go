package payload

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"testing"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
	"salectl/units"

	"salectl/backends/ledger"
)

// What is sealed stays where it was put: no other unit, plan or run can be given it.
func TestPayloadSealedToItsPlace(t *testing.T) {
	key := testKey(t)
	us := []units.Unit{{Name: "A"}}
	for name, move := range map[string]func(op *pb.Payload) string{
		"another unit": func(op *pb.Payload) string { op.First = 2; return "log" },
		"another plan": func(op *pb.Payload) string { op.Plan = bytes.Repeat([]byte{9}, 32); return "log" },
		"another log":  func(*pb.Payload) string { return "other" },
		"more units":   func(op *pb.Payload) string { op.Count = 2; return "log" },
	} {
		op, err := Seal(key, rand.Reader, "log", ledger.Hash{1}, 1, []string{"code"}, us)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := open(key, "log", op); err != nil || got[0].Name != "A" {
			t.Fatalf("%v: %v", got, err)
		}
		log := move(op)
		if _, err := open(key, log, op); !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
func testKey(t *testing.T) *units.Key {
	t.Helper()
	secret := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1}, 32))
	source, err := units.ForSale(spec.Sale{Units: &spec.Units{File: "codes.csv", FromFile: true, Secret: true, KeyEnv: "KEY"}},
		func(string) (string, bool) { return secret, true })
	if err != nil {
		t.Fatal(err)
	}
	return source.Key()
}
