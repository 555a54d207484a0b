// Package redis is a lock node on a Redis server.
package redis

import _ "github.com/redis/go-redis/v9"
