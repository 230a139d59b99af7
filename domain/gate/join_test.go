package gate

import "time"

// Join is Enqueue for one of the normal class, weight 1 and no deadline of its own.
func (g *Gate) Join(id LeaseID, key string, now time.Time, tag any) (*Waiter, error) {
	return g.Enqueue(Ask{ID: id, Key: key, Tag: tag}, now)
}
