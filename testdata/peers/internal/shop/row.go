package shop

import (
	"time"

	"github.com/jackc/pgx/v5"
)

// row is a user who has a unit.
type row struct {
	user, key string
	shard     int16
	unit      int64
	at        time.Time
	fresh     bool // by this batch
}

func scan(from pgx.CollectableRow) (r row, err error) {
	err = from.Scan(&r.user, &r.key, &r.shard, &r.unit, &r.at, &r.fresh)
	return r, err
}
