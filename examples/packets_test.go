package examples

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"slices"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"

	"salectl/api"
	"salectl/internal/wait"
)

// scriptPackets is "packets one|cluster [ARGUMENT...]": one Redis, or three and an
// HBase, and sale.yaml, the example of red packets that names them. The Redis
// start with the arguments, and keep nothing on the disk without any.
func scriptPackets(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: packets one|cluster [ARGUMENT...]")
	}
	s := serversOf(ts)
	switch args[0] {
	case "one":
		s.startRedis(ts, 1, args[1:]...)
		s.example(ts, "red-packet", change{`["127.0.0.1:16379"]`, s.nodes()})
	case "cluster":
		s.startRedis(ts, 3, args[1:]...)
		s.startHBase(ts, false)
		s.example(ts, "red-packet-cluster", append(s.places(), change{threeNodes, s.nodes()})...)
	default:
		ts.Fatalf("no such example: %s", args[0])
	}
}

// scriptFlush is "flush": all Redis forget everything, and go on.
func scriptFlush(ts *testscript.TestScript, neg bool, args []string) {
	for _, node := range serversOf(ts).redis {
		client := redis.NewClient(&redis.Options{Addr: node.Addr()})
		ts.Check(errors.Join(client.FlushAll(context.Background()).Err(), client.Close()))
	}
}

// scriptHas is "has SALE CLAIMS": each of the buyers has what they received, and
// nothing else, as the server answers at SALE/users/USER.
func scriptHas(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: has SALE CLAIMS")
	}
	urls, sale := salesAt(args[0])
	client, err := api.NewClient(api.Config{Servers: urls, Sale: sale})
	ts.Check(err)
	ts.Check(eachLine(ts.MkAbs(args[1]), func(line []byte) error {
		var received bought
		if err := json.Unmarshal(line, &received); err != nil {
			return err
		}
		var has api.User
		if err := wait.Poll(wait.Limit, func() (err error) { // its shard may have no owner yet
			has, err = client.User(context.Background(), received.User, api.Page{})
			return err
		}); err != nil {
			return err
		}
		if len(has.Claims) != 1 || has.Claims[0].ID != received.Claim || !slices.Equal(has.Claims[0].Units, received.Units) ||
			len(received.Amounts) != 1 || !slices.Equal(has.Claims[0].Amounts, received.Amounts) || has.Claims[0].Currency != received.Currency {
			return fmt.Errorf("%s received %+v, and has %+v", received.User, received, has.Claims)
		}
		return nil
	}))
}

// scriptMoney is "money EXPORT TOTAL CURRENCY PACKETS": the amounts of all claims
// in the export and the refund come to the total exactly, and no packet has less
// than is declared.
func scriptMoney(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: money EXPORT TOTAL CURRENCY PACKETS")
	}
	f, err := os.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	defer f.Close()
	first, err := bufio.NewReader(f).ReadBytes('\n')
	ts.Check(err)
	var header struct {
		Packets struct {
			Currency, Total, Granted, Refund, Min string
			Packets                               int
		}
	}
	ts.Check(json.Unmarshal(first, &header))
	h := header.Packets
	granted, least := new(big.Rat), amount(ts, h.Min)
	ts.Check(eachLine(ts.MkAbs(args[0]), func(line []byte) error {
		var c bought
		if err := json.Unmarshal(line, &c); err != nil {
			return err
		}
		for _, text := range c.Amounts {
			if amount(ts, text).Cmp(least) < 0 {
				return fmt.Errorf("claim %s has %s, less than %s", c.Claim, text, h.Min)
			}
			granted.Add(granted, amount(ts, text))
		}
		return nil
	}))
	sum := new(big.Rat).Add(granted, amount(ts, h.Refund))
	if granted.Cmp(amount(ts, h.Granted)) != 0 || sum.Cmp(amount(ts, args[1])) != 0 ||
		h.Total != args[1] || h.Currency != args[2] || fmt.Sprint(h.Packets) != args[3] {
		ts.Fatalf("the claims come to %s, but the export has %+v; want %q", granted.FloatString(3), h, args[1:])
	}
}

func amount(ts *testscript.TestScript, text string) *big.Rat {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		ts.Fatalf("%q is no amount", text)
	}
	return r
}
