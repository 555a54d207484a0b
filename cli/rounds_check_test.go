package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// exportHeader is what a round reads of an export's first line.
type exportHeader struct {
	UID     string
	Counts  struct{ Claims, Sold, Available int }
	Packets *struct {
		Total, Granted, Refund string
		Packets                int
	}
}

// check holds what is left of the sale against what its users were told:
//
//   - the export has a claim of everybody who was told of one, with the unit and
//     the amount they were told, and none of those who were told that nothing is left;
//   - it has no other users, no user twice, and no unit twice;
//   - nobody was told that nothing is left while there was;
//   - what was granted and the refund are the total to the cent, in the export as
//     in the tombstone;
//   - no Redis has a key of the sale, but for such as end by themselves.
func (r *round) check() {
	header, claims := r.readExport()
	if r.Failed() {
		return
	}
	byUser, byUnit, sum := map[string]granted{}, map[int64]string{}, 0
	for _, c := range claims {
		if _, twice := byUser[c.User]; twice || !r.crowd.asked[c.User] || r.crowd.late[c.User] {
			r.Errorf("the export has %+v (twice: %v, asked: %v, told that nothing is left: %v)",
				c, twice, r.crowd.asked[c.User], r.crowd.late[c.User])
		}
		byUser[c.User] = c
		for _, unit := range c.Units {
			if other := byUnit[unit]; other != "" || unit < 1 || unit > int64(r.more) {
				r.Errorf("unit %d of %d is in the claims %s and %s", unit, r.more, c.Claim, other)
			}
			byUnit[unit] = c.Claim
		}
		for _, amount := range c.Amounts {
			sum += r.cents(amount)
		}
	}
	for user, told := range r.crowd.got {
		if !byUser[user].same(told) {
			r.Errorf("%s was told of %+v, and the export has %+v", user, told, byUser[user])
		}
	}
	if n := len(r.crowd.late); n > 0 && len(claims) < r.stock {
		r.Errorf("%d users were told that nothing is left, and %d of %d units were given", n, len(claims), r.stock)
	}
	counts := header.Counts
	if counts.Claims != len(claims) || counts.Sold != len(claims) || counts.Available != r.more-len(claims) || len(byUnit) != len(claims) {
		r.Errorf("the export has %d claims of %d units, of a stock of %d, and says %+v", len(claims), len(byUnit), r.more, counts)
	}
	switch {
	case (header.Packets != nil) != r.packets:
		r.Errorf("the export says of packets %+v", header.Packets)
	case r.packets:
		r.checkMoney(header, len(claims), sum)
	}
	r.checkKeys(header.UID)
	r.Logf("%d told of %d claims, %d that nothing is left", len(r.crowd.got), len(claims), len(r.crowd.late))
}

// checkMoney wants granted and refund to be the total, here and in the tombstone.
func (r *round) checkMoney(header *exportHeader, claims, sum int) {
	p := header.Packets
	if total := r.stock * 100; sum != r.cents(p.Granted) || sum+r.cents(p.Refund) != total || r.cents(p.Total) != total || p.Packets != r.stock {
		r.Errorf("the claims come to %d cents of %d, but the export has %+v", sum, total, *p)
	}
	var tombstone struct {
		Phase  string
		Refund struct {
			Packets, Granted             int
			Amount, GrantedAmount, Total string
		}
	}
	status := r.start("status", "--json", "-f", "sale.yaml")
	if !status.await() || json.Unmarshal([]byte(status.said()), &tombstone) != nil {
		r.Errorf("status says %s", status.said())
		return
	}
	if t := tombstone.Refund; tombstone.Phase != "destroyed" || t.Granted != claims || t.Packets != r.stock-claims ||
		t.Amount != p.Refund || t.GrantedAmount != p.Granted || t.Total != p.Total {
		r.Errorf("status says %+v, and the export %+v", tombstone, *p)
	}
}

// cents reads an amount with two decimals.
func (r *round) cents(amount string) int {
	n, err := strconv.Atoi(strings.Replace(amount, ".", "", 1))
	if whole := len(amount) - 3; err != nil || whole < 1 || amount[whole] != '.' {
		r.Errorf("%q is no amount with two decimals", amount)
	}
	return n
}

// checkKeys wants nothing of the sale on the Redis that would stay.
func (r *round) checkKeys(uid string) {
	for _, node := range r.nodes {
		client := goredis.NewClient(&goredis.Options{Addr: node.Addr()})
		defer client.Close()
		keys, err := client.Keys(context.Background(), "*"+uid+"*").Result()
		if err != nil {
			r.Error(err)
		}
		for _, key := range keys {
			if left := client.PTTL(context.Background(), key).Val(); left == -1*time.Nanosecond {
				r.Errorf("%s still has %s, for good: %v", node.Addr(), key, client.HGetAll(context.Background(), key))
			} else {
				r.note("key left for a while: "+strings.Replace(key, uid, "…", 1), fmt.Sprint(left))
			}
		}
	}
}

// readExport returns the header and the claims of what destroy has written.
func (r *round) readExport() (header *exportHeader, claims []granted) {
	text, err := os.ReadFile(filepath.Join(r.dir, "end.ndjson"))
	if err != nil {
		r.Error(err)
		return nil, nil
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for lines.Scan() {
		var claim struct {
			granted
			State string
		}
		switch {
		case header == nil:
			err = json.Unmarshal(lines.Bytes(), &header)
		default:
			if err = json.Unmarshal(lines.Bytes(), &claim); claim.Claim != "" {
				if claims = append(claims, claim.granted); claim.State != "sold" {
					err = fmt.Errorf("claim %s is %s", claim.Claim, claim.State)
				}
			}
		}
		if err != nil {
			r.Errorf("reading the export: %v", err)
		}
	}
	if header == nil {
		r.Error("the export is empty")
	}
	return header, claims
}
