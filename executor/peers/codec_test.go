package peers_test

import (
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/backends/ledger"
	"salectl/executor/ownership"
	"salectl/executor/peers"
	"salectl/executor/request"
	"salectl/executor/saletest"
	"salectl/executor/shard"
	"salectl/spec"
)

// sendUpdate returns the updates received after one is sent in messages of at most limit bytes.
func sendUpdate(t *testing.T, sent *ownership.PeerUpdate, limit int) (received []*ownership.PeerUpdate) {
	t.Helper()
	all, err := peers.EncodeUpdate(sent, limit)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		message, rest, err := streampb.Cut(streampb.Append(nil, r), limit)
		if err != nil || message == nil || len(rest) > 0 {
			t.Fatalf("a message of %d bytes: %v", len(r.GetPeer()), err)
		}
		got, err := new(streampb.Decoder).Request(message)
		if err != nil {
			t.Fatal(err)
		}
		err = peers.ReceiveRequest(got, func(m *streampb.Request, _ *request.Request) { t.Errorf("received the request %+v, want an update", m) }, func(t *ownership.PeerUpdate) { received = append(received, t) })
		if err != nil {
			t.Fatal(err)
		}
	}
	return received
}

// largest is a number with the maximum number of digits.
const largest = math.MaxInt64 - 1

// reports are of all shards that a sale can have, with numbers of the maximum number of digits.
func reports() (all []shard.Report) {
	load := 123456.789012345
	for i := range spec.MaxLockCount {
		all = append(all, shard.Report{
			Shard: i, Next: largest, Release: time.Unix(1_800_000_000, 123456789).UTC(), Load: shard.Load{PerSecond: &load, Queue: largest, Stuck: "ledger"},
			Totals: ledger.Totals{
				Generation: largest, Epoch: largest, Owner: "owner.example.com:12345", Phase: "open", Limit: largest, Available: largest,
				Held: largest, Sold: largest, InFlight: largest, Fill: largest, Entries: largest,
				Outcomes: ledger.Outcomes{OpenHolds: largest, Confirmed: largest, Expired: largest, Cancelled: largest, Refunded: largest, Resold: largest, RefundsDue: largest},
			},
		})
	}
	return all
}

// TestUpdatesAreDivided: a process that owns all shards of the largest sale says so in messages
// that each fit into a stream, and nothing of it is lost or comes in another order.
func TestUpdatesAreDivided(t *testing.T) {
	state, owns := "standby", map[int]uint64{}
	for i := range spec.MaxLockCount {
		owns[i] = largest
	}
	for _, sent := range []*ownership.PeerUpdate{
		{Run: saletest.UID, State: &state, Owned: owns, Reports: reports(), Traffic: &ownership.Traffic{Came: 1, Passed: 2}},
		{Run: saletest.UID, State: &state, Reports: reports()[:1]},
		{Run: saletest.UID, ProofReply: 7, UnitsMayReturn: true, Reports: reports()},
	} {
		for _, size := range []int{streampb.MaxMessage, 40_000} {
			got := ownership.PeerUpdate{Run: saletest.UID}
			for _, part := range sendUpdate(t, sent, size) {
				if part.Run != saletest.UID || part.ProofReply != sent.ProofReply || part.UnitsMayReturn != sent.UnitsMayReturn {
					t.Errorf("a part is of run %q, and answers %d, %v", part.Run, part.ProofReply, part.UnitsMayReturn)
				}
				if part.State != nil {
					got.State, got.Traffic = part.State, part.Traffic
				}
				if part.Owned != nil {
					got.Owned = part.Owned
				}
				got.Reports = append(got.Reports, part.Reports...)
				got.ProofReply, got.UnitsMayReturn = part.ProofReply, part.UnitsMayReturn
			}
			if !reflect.DeepEqual(&got, sent) {
				t.Errorf("in messages of %d bytes: %d reports of %d arrive, or something else is another", size, len(got.Reports), len(sent.Reports))
			}
		}
	}
}

// TestLargestTransferFits: as many ranges as a transfer may have fit into a message, whatever their numbers.
func TestLargestTransferFits(t *testing.T) {
	m := shard.Message{Kind: shard.Sent, From: 1, To: 2, Transfer: largest, Request: largest}
	for i := range int64(ledger.MaxRanges + 1) { // a claim that names its units, and a run beside them
		m.Units = append(m.Units, ledger.Range{First: largest/2 + 3*i, Count: 2})
	}
	received := sendUpdate(t, &ownership.PeerUpdate{Run: saletest.UID, Messages: []shard.Message{m}}, streampb.MaxMessage)
	if len(received) != 1 || !reflect.DeepEqual(received[0].Messages, []shard.Message{m}) {
		t.Errorf("%d messages arrive", len(received))
	}
	if _, err := peers.EncodeUpdate(&ownership.PeerUpdate{Messages: []shard.Message{m}}, 1000); !errors.Is(err, streampb.ErrTooLong) {
		t.Errorf("of what cannot be divided: %v", err)
	}
}

// TestRepliesArrive: each answer arrives as it was given.
func TestRepliesArrive(t *testing.T) {
	at := time.Unix(1_800_000_000, 123456789).UTC()
	claim := request.Claim{
		ID: request.ClaimID{Shard: 3, Slot: 1 << 40, Index: 5}, User: "ada", Units: []int64{2, 1 << 41}, Requested: 3, State: "held", At: at, HeldUntil: at.Add(time.Hour),
		Books: &api.Books{SettledAt: at, Who: "who", Why: "why", Payment: "payment", Extended: true, Retired: true, RefundDue: []string{"due"}, RefundsDue: 2, RefundDueNext: "due"},
	}
	look := uint64(1<<63 | 4)
	tried := request.Undecided
	tried.Elsewhere = true
	for _, c := range []struct {
		id    uint64
		given request.Answer
	}{
		{7, request.Answer{Outcome: "sold", Claim: claim, Replayed: true, RefundDue: true}},
		{7, request.Answer{Outcome: "limit_reached", Count: 40_000, Claims: []request.Claim{claim, claim}, RetryAfter: time.Second, Message: "message"}},
		{7, request.Answer{Outcome: "not_open", OpensAt: at, OtherRules: true, Rule: "rule", Reason: "reason"}},
		{look, request.Answer{Claim: claim}},
		{look, request.Answer{Claims: []request.Claim{claim, claim, claim}, Next: "3-17-5"}},
		{look, request.Answer{Outcome: "no_such_claim"}},
		{7, request.Undecided},
		{7, tried},
		{7, request.Answer{Elsewhere: true}},
	} {
		route := ownership.Route{Owner: "id", Address: "there:1", Epoch: c.id}
		received := false
		read(t, peers.EncodeReply(c.id, c.given, route), func(id uint64, a request.Answer, owner ownership.Route) {
			if received = true; id != c.id || !reflect.DeepEqual(a, c.given) || owner != route {
				t.Errorf("to %d\n%+v by %+v arrives as\n%+v by %+v", c.id, c.given, route, a, owner)
			}
		})
		if !received {
			t.Errorf("%+v does not arrive", c.given)
		}
	}
}

// read has a reply arrive over a stream.
func read(t *testing.T, r *streampb.Reply, replies peers.Replies) {
	t.Helper()
	message, _, err := streampb.Cut(streampb.Append(nil, r), streampb.MaxReply)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := new(streampb.Decoder).Reply(message)
	if err != nil {
		t.Fatal(err)
	}
	peers.ReceiveReply(decoded, replies)
}
