"""What regenerates tables and figures, foldered by paper: runs, results, statistics, claims, data sets, training."""
