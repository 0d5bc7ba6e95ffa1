"""What the judge and its workers both need: messages, values, proxies. All that a jail sees of the judge."""
